// All sixteen YMM registers keep their 256 bits over system calls, local and
// shipped, short and blocking, and over a fault that is handled.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

struct registers {
    uint64_t ymm[16][4];
} __attribute__((aligned(32)));

// Loads all YMM registers, makes one system call by hand, stores them all.
__attribute__((target("avx"), noinline)) static long
around(const struct registers *in, struct registers *out, long number, long a, long b, long c)
{
    register long r10 __asm__("r10") = 0;
#define LOAD(n) "vmovdqa " #n "*32(%[in]), %%ymm" #n "\n"
#define STORE(n) "vmovdqa %%ymm" #n ", " #n "*32(%[out])\n"
#define ALL(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15)
    __asm__ volatile(ALL(LOAD) "syscall\n" ALL(STORE) "vzeroupper\n"
                     : "+a"(number), "+r"(r10)
                     : [in] "r"(in), [out] "r"(out), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return number;
}

int main(void)
{
    static struct registers in, out;
    static char buf[65536];
    struct timespec pause = {0, 3000000};
    if (!__builtin_cpu_supports("avx")) {
        puts("this CPU has no AVX");
        return 0;
    }
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    const struct {
        const char *name;
        long number, a, b, c;
    } calls[] = {
        {"getppid", SYS_getppid, 0, 0, 0},
        {"write of 64 KB", SYS_write, fd, (long)buf, sizeof buf},
        {"lseek", SYS_lseek, fd, 0, SEEK_SET},
        {"read of 64 KB", SYS_read, fd, (long)buf, sizeof buf},
        {"nanosleep", SYS_nanosleep, (long)&pause, 0, 0},
        {"sched_yield", SYS_sched_yield, 0, 0, 0},
        {"a bad pointer", SYS_write, fd, 8, 8},
        {"an unknown call", 5000, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int right = 0;
        for (int round = 0; round < 20; round++) {
            seq_fill(&in, (uint64_t)round * 1000 + i, sizeof in / 8);
            memset(&out, 0, sizeof out);
            around(&in, &out, calls[i].number, calls[i].a, calls[i].b, calls[i].c);
            right += memcmp(&in, &out, sizeof in) == 0;
        }
        check(right == 20, "16 registers of 256 bits kept over %s", calls[i].name);
    }
    unlink("f");
    return check_done();
}
