// The x87 unit: eight registers full of 80-bit numbers, tags and status kept
// over system calls and signals whose handlers use the unit themselves.
#include "../common/check.h"
#include <time.h>

static volatile long double in_handler;

static void handler(int signo)
{
    // Fills the whole register stack and leaves it so.
    __asm__ volatile("fninit\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi\n fldpi\n fld1");
    in_handler = (long double)signo / 3;
}

struct __attribute__((packed)) image {
    uint16_t control, pad1, status, pad2, tag, pad3;
    uint32_t ip, cs_op, dp, ds;
    uint8_t st[8][10];
};

// Loads eight constants, runs the call in between, and stores all of the unit.
#define AROUND(image, call)                                                                                        \
    do {                                                                                                           \
        __asm__ volatile("fninit\n fldpi\n fldl2e\n fldl2t\n fldlg2\n fldln2\n fld1\n fldz\n fldpi\n fchs");       \
        call;                                                                                                      \
        __asm__ volatile("fnsave %0\n fninit" : "=m"(image)::"memory");                                            \
    } while (0)

int main(void)
{
    struct image before, after;
    signal(SIGUSR1, handler);
    AROUND(before, (void)0);
    printf("status %04x tags %04x\n", before.status & 0x3fff, before.tag);
    for (int i = 0; i < 8; i++) {
        printf("st%d ", i);
        for (int b = 9; b >= 0; b--)
            printf("%02x", before.st[i][b]);
        putchar('\n');
    }
    // The instruction pointers of the unit may differ; the rest may not.
#define SAME (memcmp(before.st, after.st, sizeof before.st) == 0 && before.tag == after.tag && \
              before.control == after.control && before.status == after.status)
    AROUND(after, getppid());
    check(SAME, "eight registers kept over a system call");
    AROUND(after, nanosleep((&(struct timespec){0, 2000000}), NULL));
    check(SAME, "over a sleep");
    AROUND(after, raise(SIGUSR1));
    check(SAME, "over a signal whose handler fills the unit");
    int right = 0;
    for (int i = 0; i < 1000; i++) {
        AROUND(after, raise(SIGUSR1));
        right += SAME;
    }
    check(right == 1000, "1000 times");

    volatile long double x = 1, sum = 0;
    for (int i = 1; i <= 10000; i++)
        sum += x / i;
    printf("harmonic sum %La\n", sum);
    volatile long double huge_value = 0x1p16383L, tiny = 0x1p-16382L;
    printf("range %La %La %La\n", huge_value * 1.5L, tiny / 8, huge_value * 4);
    // Precision control: 24, 53 and 64 bits of the same quotient.
    static const uint16_t controls[] = {0x007f, 0x027f, 0x037f};
    for (int i = 0; i < 3; i++) {
        long double q;
        __asm__ volatile("fldcw %1\n fld1\n fldpi\n fdivrp\n fstpt %0\n fninit" : "=m"(q) : "m"(controls[i]));
        printf("precision control %d: %La\n", i, q);
    }
    return check_done();
}
