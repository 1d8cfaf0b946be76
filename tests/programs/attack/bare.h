// What attacks use that go by no C library: system calls with any arguments, handlers.
#ifndef MARGAY_BARE_H
#define MARGAY_BARE_H

#include <stdint.h>

static long raw(uint64_t number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
#define CALL(number, ...) CALL_(number, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(number, a, b, c, d, e, f, ...) raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

// struct sigaction as Linux takes it (uapi/asm/signal.h).
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
void restorer(void);
__asm__("restorer: mov $15, %eax\n\tsyscall");
#define ACTION(handler) {handler, 0x04000000 /* SA_RESTORER */, restorer, 0}

#endif
