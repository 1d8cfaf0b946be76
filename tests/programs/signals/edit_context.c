// Handlers that change the interrupted context: registers, flags, instruction
// pointer and stack pointer take effect on return; all other registers survive.
#include "../common/check.h"
#include <ucontext.h>

static volatile int mode;

static void edit(int signo, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)signo;
    (void)info;
    switch (mode) {
    case 0: // skip ud2
        r[REG_RIP] += 2;
        break;
    case 1: // give another result
        r[REG_RIP] += 2;
        r[REG_RAX] = 0x1122334455667788;
        break;
    case 2: // carry flag and zero flag on
        r[REG_RIP] += 2;
        r[REG_EFL] |= 0x41;
        break;
    case 3: // request what no program may have: IOPL 3, interrupts off
        r[REG_RIP] += 2;
        r[REG_EFL] = (r[REG_EFL] | 0x3000) & ~0x200l;
        break;
    }
}

// All general registers around an ud2: the ones that changed, as bits.
static unsigned changed_registers(void)
{
    unsigned changed;
    __asm__ volatile("push %%rbp\n"
                     "mov $1, %%rax\n mov $2, %%rbx\n mov $3, %%rcx\n mov $4, %%rdx\n mov $5, %%rsi\n mov $6, %%rdi\n"
                     "mov $7, %%rbp\n mov $8, %%r8\n mov $9, %%r9\n mov $10, %%r10\n mov $11, %%r11\n mov $12, %%r12\n"
                     "mov $13, %%r13\n mov $14, %%r14\n mov $15, %%r15\n"
                     "ud2\n"
                     "sub $1, %%rax\n sub $2, %%rbx\n sub $3, %%rcx\n sub $4, %%rdx\n sub $5, %%rsi\n sub $6, %%rdi\n"
                     "sub $7, %%rbp\n sub $8, %%r8\n sub $9, %%r9\n sub $10, %%r10\n sub $11, %%r11\n sub $12, %%r12\n"
                     "sub $13, %%r13\n sub $14, %%r14\n sub $15, %%r15\n"
                     "or %%rbx, %%rax\n or %%rcx, %%rax\n or %%rdx, %%rax\n or %%rsi, %%rax\n or %%rdi, %%rax\n"
                     "or %%rbp, %%rax\n or %%r8, %%rax\n or %%r9, %%rax\n or %%r10, %%rax\n or %%r11, %%rax\n"
                     "or %%r12, %%rax\n or %%r13, %%rax\n or %%r14, %%rax\n or %%r15, %%rax\n"
                     "pop %%rbp"
                     : "=a"(changed)
                     :
                     : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory");
    return changed;
}

static uint64_t flags_after_ud2(void)
{
    uint64_t flags;
    __asm__ volatile("mov $1, %%eax\n test %%eax, %%eax\n ud2\n pushf\n pop %0" : "=r"(flags)::"eax", "cc");
    return flags;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = edit, .sa_flags = SA_SIGINFO};
    need(sigaction(SIGILL, &action, NULL) == 0, "sigaction");
    mode = 0;
    check(changed_registers() == 0, "the instruction is skipped, 15 registers survive");
    check((flags_after_ud2() & 0x41) == 0, "flags survive");
    mode = 1;
    uint64_t rax;
    __asm__ volatile("xor %%eax, %%eax\n ud2" : "=a"(rax));
    check(rax == 0x1122334455667788, "a register set by the handler");
    mode = 2;
    check((flags_after_ud2() & 0x41) == 0x41, "flags set by the handler");
    mode = 3;
    check((flags_after_ud2() & 0x3200) == 0x200, "privileged flags are not taken over");
    mode = 0;
    int right = 0;
    for (int i = 0; i < 10000; i++)
        right += changed_registers() == 0;
    check(right == 10000, "10,000 times");
    return check_done();
}
