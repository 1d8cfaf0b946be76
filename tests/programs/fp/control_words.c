// MXCSR and the x87 control word: their values at start, kept over system calls
// and signals; a handler begins with the defaults and what it sets is undone.
#include "../common/check.h"
#include <time.h>
#include <xmmintrin.h>

static unsigned mxcsr_in_handler, x87_in_handler;

static unsigned x87_control(void)
{
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}
static void set_x87_control(unsigned value)
{
    uint16_t word = (uint16_t)value;
    __asm__ volatile("fldcw %0" ::"m"(word));
}

static void handler(int signo)
{
    (void)signo;
    mxcsr_in_handler = _mm_getcsr();
    x87_in_handler = x87_control();
    _mm_setcsr(0x5f80);
    set_x87_control(0x0f7f);
}

int main(void)
{
    check(_mm_getcsr() == 0x1f80, "MXCSR is 1f80 at start");
    check(x87_control() == 0x37f, "the x87 control word is 037f");
    static const unsigned values[] = {0x1f80, 0x3f80, 0x5f80, 0x7f80, 0x9fc0, 0x1fbf};
    signal(SIGUSR1, handler);
    for (int i = 0; i < 6; i++) {
        unsigned x87 = 0x37f ^ (unsigned)(i << 8 & 0xf00);
        _mm_setcsr(values[i]);
        set_x87_control(x87);
        for (int n = 0; n < 10; n++)
            getppid();
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        write(1, "", 0);
        unsigned mxcsr_after = _mm_getcsr(), x87_after = x87_control();
        raise(SIGUSR1);
        unsigned mxcsr_back = _mm_getcsr(), x87_back = x87_control();
        _mm_setcsr(0x1f80);
        set_x87_control(0x37f);
        check(mxcsr_after == values[i] && x87_after == x87, "%04x and %04x kept over system calls", values[i], x87);
        check(mxcsr_in_handler == 0x1f80 && x87_in_handler == 0x37f, "a handler starts with the defaults");
        check(mxcsr_back == values[i] && x87_back == x87, "after it they are back");
    }
    volatile double x = 1.0, y;
    _mm_setcsr(0x1f80);
    y = x / 3;
    check(y != 0 && (_mm_getcsr() & 0x3f) == 0x20, "an inexact result sets just its flag");
    raise(SIGUSR1);
    check((_mm_getcsr() & 0x3f) == 0x20, "which a handler does not clear");
    return check_done();
}
