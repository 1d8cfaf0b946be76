// YMM registers over signals: handlers that wipe them all do no harm, for a
// signal from a system call, a fault, and a timer in a loop without calls.
#include "../common/check.h"
#include <sys/time.h>
#include <ucontext.h>

typedef uint64_t wide[16][4] __attribute__((aligned(32)));

#define ALL(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15)
#define LOAD(n) "vmovdqa " #n "*32(%[in]), %%ymm" #n "\n"
#define STORE(n) "vmovdqa %%ymm" #n ", " #n "*32(%[out])\n"
#define WIPE(n) "vpcmpeqd %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n vinsertf128 $1, %%xmm" #n ", %%ymm" #n ", %%ymm" #n "\n"
#define CLOBBERS                                                                                                   \
    "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",       \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

static volatile int calls;
static wide in, out;

__attribute__((target("avx"))) static void wipe(int signo, siginfo_t *info, void *context)
{
    (void)info;
    __asm__ volatile(ALL(WIPE)::: CLOBBERS);
    if (signo == SIGILL)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; // behind the ud2
    calls++;
}

__attribute__((target("avx"), noinline)) static void around_ud2(void)
{
    __asm__ volatile(ALL(LOAD) "ud2\n" ALL(STORE) "vzeroupper" ::[in] "r"(in), [out] "r"(out) : CLOBBERS);
}

// Spins in registers until a handler has run.
__attribute__((target("avx"), noinline)) static void around_loop(void)
{
    int before = calls;
    __asm__ volatile(ALL(LOAD) "1: cmpl %[before], %[calls]\n je 1b\n" ALL(STORE) "vzeroupper" ::[in] "r"(in),
                     [out] "r"(out), [before] "r"(before), [calls] "m"(calls)
                     : CLOBBERS);
}

// tgkill by hand is not needed: kill of its own process is delivered at once.
__attribute__((target("avx"), noinline)) static void around_kill(void)
{
    long number = 62, pid = getpid();
    __asm__ volatile(ALL(LOAD) "syscall\n" ALL(STORE) "vzeroupper"
                     : "+a"(number)
                     : [in] "r"(in), [out] "r"(out), "D"(pid), "S"(SIGUSR1)
                     : "rcx", "r11", CLOBBERS);
}

static void repeat(void (*body)(void), int rounds, const char *text)
{
    int right = 0;
    calls = 0;
    for (int i = 0; i < rounds; i++) {
        seq_fill(in, (uint64_t)i * 64, sizeof in / 8);
        memset(out, 0, sizeof out);
        body();
        right += memcmp(in, out, sizeof in) == 0;
    }
    check(right == rounds && calls >= rounds, "16 registers of 256 bits kept over %d %s", rounds, text);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = wipe, .sa_flags = SA_SIGINFO};
    struct itimerval every = {{0, 3000}, {0, 3000}}, stop = {0};
    if (!__builtin_cpu_supports("avx")) {
        puts("this CPU has no AVX");
        return 0;
    }
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    repeat(around_ud2, 1000, "faults");
    repeat(around_kill, 1000, "signals from a call");
    need(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer");
    repeat(around_loop, 50, "timer signals in a loop");
    setitimer(ITIMER_REAL, &stop, NULL);
    return check_done();
}
