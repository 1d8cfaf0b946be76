// Denormal numbers: arithmetic with and without flush-to-zero and
// denormals-are-zero, as exact bits; the modes survive system calls.
#include "../common/check.h"
#include <xmmintrin.h>

static uint64_t bits(double d)
{
    uint64_t b;
    memcpy(&b, &d, 8);
    return b;
}

int main(void)
{
    volatile double least = 0x1p-1074, small = 0x1p-1022, half = 0.5, third = 1.0 / 3, one = 1;
    volatile float leastf = 0x1p-149f, smallf = 0x1p-126f;
    static const struct {
        unsigned mxcsr;
        const char *name;
    } modes[] = {{0x1f80, "IEEE"}, {0x9f80, "flush to zero"}, {0x1fc0, "denormals are zero"}, {0x9fc0, "both"}};
    for (int m = 0; m < 4; m++) {
        _mm_setcsr(modes[m].mxcsr);
        volatile double a = small * half, b = least + least, c = small - small * third, d = least * one, e = small * third;
        volatile float f = smallf * 0.5f, g = leastf * 3;
        volatile int equal = least == 0, less = least < small;
        getppid();
        unsigned after = _mm_getcsr();
        _mm_setcsr(0x1f80);
        printf("%s: %016llx %016llx %016llx %016llx %016llx %a %a %d %d\n", modes[m].name, (unsigned long long)bits(a),
               (unsigned long long)bits(b), (unsigned long long)bits(c), (unsigned long long)bits(d),
               (unsigned long long)bits(e), (double)f, (double)g, equal, less);
        check((after & ~0x3fu) == modes[m].mxcsr, "the mode survives a system call");
    }
    volatile double x = 1;
    int halvings = 0;
    while (x > 0) {
        x = x / 2;
        halvings++;
    }
    check(halvings == 1075, "1 can be halved 1074 times before it is zero");
    return check_done();
}
