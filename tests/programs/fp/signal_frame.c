// The floating point state within a signal's frame: its layout can be read
// (magic numbers, sizes, XMM values), and what the handler changes in it is
// what the program finds afterwards.
#include "../common/check.h"
#include <ucontext.h>

// The software bytes at the end of the FXSAVE image: struct _fpx_sw_bytes of
// uapi/asm/sigcontext.h, which the C library hides behind reserved words.
enum { SOFTWARE_BYTES_AT = 464 };

static uint64_t seen[2];
static unsigned magic, size_sum_right, seen_mxcsr, tail_right;

static void edit(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)info;
    ucontext_t *u = context;
    fpregset_t fp = u->uc_mcontext.fpregs;
    struct _fpx_sw_bytes sw;
    uint32_t tail;
    memcpy(&sw, (char *)fp + SOFTWARE_BYTES_AT, sizeof sw);
    magic = sw.magic1;
    size_sum_right = sw.extended_size == sw.xstate_size + FP_XSTATE_MAGIC2_SIZE;
    memcpy(&tail, (char *)fp + sw.xstate_size, sizeof tail);
    tail_right = tail == FP_XSTATE_MAGIC2;
    seen_mxcsr = fp->mxcsr;
    memcpy(seen, &fp->_xmm[5], 16);
    const uint64_t replaced[2] = {0x1111111111111111, 0x2222222222222222};
    memcpy(&fp->_xmm[5], replaced, 16);
    fp->mxcsr = 0x7f80;
    u->uc_mcontext.gregs[REG_RIP] += 2; // behind the ud2
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = edit, .sa_flags = SA_SIGINFO};
    uint64_t before[2] = {0xaaaaaaaaaaaaaaaa, 0xbbbbbbbbbbbbbbbb}, after[2];
    unsigned mxcsr = 0x3f80, mxcsr_after, usual = 0x1f80;
    need(sigaction(SIGILL, &action, NULL) == 0, "sigaction");
    __asm__ volatile("ldmxcsr %[set]\n movups %[before], %%xmm5\n ud2\n movups %%xmm5, %[after]\n stmxcsr %[got]\n"
                     "ldmxcsr %[usual]"
                     : [after] "=m"(after), [got] "=m"(mxcsr_after)
                     : [before] "m"(before), [set] "m"(mxcsr), [usual] "m"(usual)
                     : "xmm5", "memory");
    check(magic == FP_XSTATE_MAGIC1, "the frame holds extended state");
    check(size_sum_right && tail_right, "its sizes add up and the second magic is behind it");
    check(seen[0] == before[0] && seen[1] == before[1], "XMM5 is seen by the handler");
    check(seen_mxcsr == 0x3f80, "and MXCSR");
    check(after[0] == 0x1111111111111111 && after[1] == 0x2222222222222222, "XMM5 is what the handler wrote");
    check(mxcsr_after == 0x7f80, "and MXCSR");
    return check_done();
}
