// Unmasked x87 exceptions give SIGFPE with the right code at the next waiting
// instruction; masked again they give none. Integers are not touched by it.
#include "../common/check.h"

static uint16_t control;
static volatile long double result;

static void set_control(uint16_t c) { __asm__ volatile("fninit\n fldcw %0" ::"m"(c)); }

static void divide(void *p)
{
    (void)p;
    set_control(control);
    __asm__ volatile("fld1\n fldz\n fdivrp %%st, %%st(1)\n fwait\n fstp %%st" ::: "memory");
}
static void root_of_minus_one(void *p)
{
    (void)p;
    set_control(control);
    __asm__ volatile("fld1\n fchs\n fsqrt\n fwait\n fstp %%st" ::: "memory");
}
static void overflow(void *p)
{
    long double big = 0x1p16383L;
    (void)p;
    set_control(control);
    __asm__ volatile("fldt %0\n fmul %%st, %%st\n fwait\n fstp %%st" ::"m"(big) : "memory");
}
static void underflow(void *p)
{
    long double tiny = 0x1p-16382L;
    (void)p;
    set_control(control);
    __asm__ volatile("fldt %0\n fmul %%st, %%st\n fwait\n fstp %%st" ::"m"(tiny) : "memory");
}
static void inexact(void *p)
{
    (void)p;
    set_control(control);
    __asm__ volatile("fld1\n fadd %%st, %%st\n fsqrt\n fwait\n fstp %%st" ::: "memory");
}

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(void *);
        unsigned mask_bit;
        int code;
    } kinds[] = {
        {"1 / 0", divide, 0x04, FPE_FLTDIV},        {"sqrt(-1)", root_of_minus_one, 0x01, FPE_FLTINV},
        {"overflow", overflow, 0x08, FPE_FLTOVF},   {"underflow", underflow, 0x10, FPE_FLTUND},
        {"inexact", inexact, 0x20, FPE_FLTRES},
    };
    for (int i = 0; i < 5; i++) {
        control = 0x37f;
        struct fault f = fault_of(kinds[i].body, NULL);
        check(f.signo == 0, "%s: masked, no signal", kinds[i].name);
        control = (uint16_t)(0x37f & ~kinds[i].mask_bit);
        f = fault_of(kinds[i].body, NULL);
        if (!check(f.signo == SIGFPE && f.code == kinds[i].code, "%s: SIGFPE, code %d", kinds[i].name, kinds[i].code))
            printf("     got signal %d, code %d\n", f.signo, f.code);
        check(f.addr != NULL, "with an address");
        set_control(0x37f);
    }
    result = 1;
    for (int i = 1; i < 100; i++)
        result = result * 1.01L;
    check(result > 2.67L && result < 2.68L, "the unit works on: %.15Lf", result);
    return check_done();
}
