// Threads of one processor keep vector registers, x87 and control words of their
// own while they are switched and get signals whose handlers use them all.
//
//     vector_state [THREADS [SWITCHES]]
//
// It goes on until there were so many switches in the middle of a check, which
// the threads count themselves: one that comes after another one has switched.
// The tables ask for some 10,000, and once for a million, which take seconds on
// a quiet machine.
#include "../common/parallel.h"

#include <fenv.h>
#include <immintrin.h>

static int thread_count = 6;
static uint64_t wanted = 3000;
static atomic_int wrong, handled, finished;
// Which thread was the last in the loop below, and how often that was another one. One processor: no lock.
static volatile uint64_t last_mark, switches;
static _Atomic pid_t tids[64];

// All sixteen registers, with values that no other thread has.
__attribute__((target("avx"))) static int keep_avx(uint64_t mark, long spins)
{
    uint64_t in[16][4], out[16][4];
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 4; k++)
            in[i][k] = seq_word(mark * 64 + (uint64_t)i * 4 + (uint64_t)k);
    __asm__ volatile("vmovdqu 0(%[in]), %%ymm0\n\tvmovdqu 32(%[in]), %%ymm1\n\tvmovdqu 64(%[in]), %%ymm2\n\t"
                     "vmovdqu 96(%[in]), %%ymm3\n\tvmovdqu 128(%[in]), %%ymm4\n\tvmovdqu 160(%[in]), %%ymm5\n\t"
                     "vmovdqu 192(%[in]), %%ymm6\n\tvmovdqu 224(%[in]), %%ymm7\n\tvmovdqu 256(%[in]), %%ymm8\n\t"
                     "vmovdqu 288(%[in]), %%ymm9\n\tvmovdqu 320(%[in]), %%ymm10\n\tvmovdqu 352(%[in]), %%ymm11\n\t"
                     "vmovdqu 384(%[in]), %%ymm12\n\tvmovdqu 416(%[in]), %%ymm13\n\tvmovdqu 448(%[in]), %%ymm14\n\t"
                     "vmovdqu 480(%[in]), %%ymm15\n"
                     // sched_yield gives the processor away with all registers in use; signals come meanwhile.
                     "1:\tmov %[yield], %%eax\n\tsyscall\n\t"
                     "cmp %[mark], %[last]\n\tje 2f\n\tmov %[mark], %[last]\n\tincq %[switches]\n"
                     "2:\tdec %[spins]\n\tjnz 1b\n\t"
                     "vmovdqu %%ymm0, 0(%[out])\n\tvmovdqu %%ymm1, 32(%[out])\n\tvmovdqu %%ymm2, 64(%[out])\n\t"
                     "vmovdqu %%ymm3, 96(%[out])\n\tvmovdqu %%ymm4, 128(%[out])\n\tvmovdqu %%ymm5, 160(%[out])\n\t"
                     "vmovdqu %%ymm6, 192(%[out])\n\tvmovdqu %%ymm7, 224(%[out])\n\tvmovdqu %%ymm8, 256(%[out])\n\t"
                     "vmovdqu %%ymm9, 288(%[out])\n\tvmovdqu %%ymm10, 320(%[out])\n\tvmovdqu %%ymm11, 352(%[out])\n\t"
                     "vmovdqu %%ymm12, 384(%[out])\n\tvmovdqu %%ymm13, 416(%[out])\n\tvmovdqu %%ymm14, 448(%[out])\n\t"
                     "vmovdqu %%ymm15, 480(%[out])\n\tvzeroupper"
                     : [spins] "+r"(spins), [last] "+m"(last_mark), [switches] "+m"(switches)
                     : [in] "r"(in), [out] "r"(out), [yield] "i"(SYS_sched_yield), [mark] "r"(mark)
                     : "rax", "rcx", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return memcmp(in, out, sizeof in) == 0;
}

// The handler leaves nothing as it was.
__attribute__((target("avx"))) static void spoil(int signo)
{
    (void)signo;
    handled++;
    __asm__ volatile("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\tvinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
                     "vmovaps %%ymm0, %%ymm1\n\tvmovaps %%ymm0, %%ymm7\n\tvmovaps %%ymm0, %%ymm8\n\t"
                     "vmovaps %%ymm0, %%ymm15\n\tfninit\n\tfldpi\n\tfldpi"
                     :
                     :
                     : "memory");
    fesetround(FE_TOWARDZERO);
}

static void *keep(void *arg)
{
    static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    int own = (int)(intptr_t)arg, rounding = roundings[own % 4];
    tids[own] = own_tid();
    fesetround(rounding);
    // Its own number at the bottom of the x87 stack, while nothing else uses that.
    uint16_t control;
    while (switches < wanted || handled < thread_count) {
        double number = own + 0.25, back = 0;
        __asm__ volatile("fldl %0" : : "m"(number));
        int good = keep_avx((uint64_t)own + 1, 10);
        __asm__ volatile("fstpl %0" : "=m"(back));
        __asm__ volatile("fnstcw %0" : "=m"(control));
        wrong += !good || back != number || fegetround() != rounding || (control >> 10 & 3) != (unsigned)rounding >> 10;
    }
    finished++;
    // It stays to be found by the signals that are under way.
    STAY_UNTIL(finished >= thread_count);
    return NULL;
}

// A thread begins with its maker's control words.
static void *rounding_at_start(void *arg)
{
    uint16_t control;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    *(int *)arg = (control >> 10 & 3) == FE_UPWARD >> 10 ? fegetround() : -1;
    return NULL;
}
static void control_words_are_inherited(void)
{
    int rounding = -1;
    fesetround(FE_UPWARD);
    joined(start(rounding_at_start, &rounding));
    check(rounding == FE_UPWARD, "a thread rounds as its maker does");
    fesetround(FE_TONEAREST);
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    thread_count = (int)number_arg(argc, argv, 1, thread_count);
    wanted = (uint64_t)number_arg(argc, argv, 2, (long)wanted);
    need(thread_count > 0 && thread_count <= 64, "1 to 64 threads");
    if (!__builtin_cpu_supports("avx"))
        need(0, "AVX");
    control_words_are_inherited();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    catch_signal(SIGUSR1, spoil, SA_RESTART);
    for (intptr_t i = 0; i < thread_count; i++)
        threads[i] = start(keep, (void *)i);
    for (int i = 0; i < thread_count; i++)
        AWAIT(tids[i]);
    int sent = 0;
    for (; finished < thread_count; sent++) {
        signal_thread(tids[sent % thread_count], SIGUSR1);
        sched_yield();
    }
    for (int i = 0; i < thread_count; i++)
        joined(threads[i]);
    check(wrong == 0, "%d threads of one processor keep their registers", thread_count);
    check(switches >= wanted, "over %llu switches between them", (unsigned long long)wanted);
    check(handled >= thread_count && handled <= sent, "with signals in between");
    return check_done();
}
