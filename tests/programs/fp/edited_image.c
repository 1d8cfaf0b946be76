// A handler that leaves its frame's FPU image as no XSAVE writes it: what is wrong for XRSTOR ends the program; without
// the magic numbers only the registers of the legacy region count.
#include "../common/check.h"
#include <immintrin.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { SW_BYTES = 464, XSTATE_BV = 512, XCOMP_BV = 520, RESERVED = 544, MXCSR = 24, XMM3 = 160 + 3 * 16 };

static const char *how;

static void put(char *image, int at, uint64_t value) { memcpy(image + at, &value, sizeof value); }

static void handler(int signo, siginfo_t *info, void *context)
{
    char *image = (char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    uint32_t sizes[6];
    (void)signo;
    (void)info;
    memcpy(sizes, image + SW_BYTES, sizeof sizes);
    if (strcmp(how, "mxcsr") == 0)
        memset(image + MXCSR, 0xff, 4);
    if (strcmp(how, "states") == 0)
        put(image, XSTATE_BV, UINT64_C(1) << 62 | 3);
    if (strcmp(how, "compact") == 0)
        put(image, XCOMP_BV, 3);
    if (strcmp(how, "reserved") == 0)
        put(image, RESERVED, 1);
    if (strcmp(how, "nowhere") == 0)
        ((ucontext_t *)context)->uc_mcontext.fpregs = (fpregset_t)64;
    if (strcmp(how, "misplaced") == 0)
        ((ucontext_t *)context)->uc_mcontext.fpregs = (fpregset_t)(image + 8);
    if (strcmp(how, "none") == 0)
        ((ucontext_t *)context)->uc_mcontext.fpregs = NULL;
    if (strcmp(how, "magic1") == 0)
        put(image, SW_BYTES, 0);
    if (strcmp(how, "magic2") == 0)
        memset(image + sizes[4], 0, 4);
    if (strncmp(how, "magic", 5) == 0)
        put(image, XMM3, 55);
}

// The registers before and after the signal, all in one place that the compiler cannot use in between.
static void around(uint64_t *xmm3, uint64_t *upper)
{
    uint64_t lanes[4] = {7, 7, 7, 7};
    long pid = getpid(), ret = SYS_kill;
    __asm__ volatile("vmovdqu %[lanes], %%ymm3\n\tsyscall\n\tvmovdqu %%ymm3, %[lanes]"
                     : [lanes] "+m"(lanes), "+a"(ret)
                     : "D"(pid), "S"((long)SIGUSR1)
                     : "rcx", "r11", "xmm3", "memory");
    *xmm3 = lanes[0];
    *upper = lanes[2];
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    uint64_t xmm3, upper;
    how = argc > 1 ? argv[1] : "whole";
    need(__builtin_cpu_supports("avx"), "AVX");
    sigaction(SIGUSR1, &action, NULL);
    printf("about to return: %s\n", how);
    fflush(stdout);
    around(&xmm3, &upper);
    printf("xmm3 %llu, above it %llu, mxcsr %x\n", (unsigned long long)xmm3, (unsigned long long)upper, _mm_getcsr());
    return 0;
}
