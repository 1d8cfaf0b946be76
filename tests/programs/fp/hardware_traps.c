// What QEMU's TCG (7.2) does not emulate, so this needs KVM or a real machine:
// unmasked SSE exceptions give SIGFPE with the right code, an x87 stack fault
// too, and reserved bits of MXCSR a general protection fault.
#include "../common/check.h"
#include <fenv.h>
#include <math.h>

static volatile double zero = 0, one = 1, three = 3, big = 1e308, tiny = 1e-308, result;

static void divide(void *p)
{
    (void)p;
    result = one / zero;
}
static void invalid(void *p)
{
    (void)p;
    result = zero / zero;
}
static void overflow(void *p)
{
    (void)p;
    result = big * big;
}
static void underflow(void *p)
{
    (void)p;
    result = tiny * tiny;
}
static void inexact(void *p)
{
    (void)p;
    result = one / three;
}

static void empty_x87_stack(void *p)
{
    const uint16_t control = 0x37e;
    (void)p;
    __asm__ volatile("fninit\n fldcw %0\n fadd %%st(1), %%st\n fwait" ::"m"(control) : "memory");
}
static void reserved_bit(void *p)
{
    const uint32_t mxcsr = 0x80001f80;
    (void)p;
    __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
}

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(void *);
        int exception, code;
    } kinds[] = {
        {"1 / 0", divide, FE_DIVBYZERO, FPE_FLTDIV},       {"0 / 0", invalid, FE_INVALID, FPE_FLTINV},
        {"overflow", overflow, FE_OVERFLOW, FPE_FLTOVF},   {"underflow", underflow, FE_UNDERFLOW, FPE_FLTUND},
        {"inexact", inexact, FE_INEXACT, FPE_FLTRES},
    };
    for (int i = 0; i < 5; i++) {
        feclearexcept(FE_ALL_EXCEPT);
        check(fault_of(kinds[i].body, NULL).signo == 0, "%s: masked, no signal", kinds[i].name);
        feclearexcept(FE_ALL_EXCEPT);
        need(feenableexcept(kinds[i].exception) >= 0, "feenableexcept");
        struct fault f = fault_of(kinds[i].body, NULL);
        fedisableexcept(FE_ALL_EXCEPT);
        feclearexcept(FE_ALL_EXCEPT);
        check(f.signo == SIGFPE && f.code == kinds[i].code, "%s: SIGFPE, code %d", kinds[i].name, kinds[i].code);
    }
    struct fault f = fault_of(empty_x87_stack, NULL);
    __asm__ volatile("fninit");
    check(f.signo == SIGFPE && f.code == FPE_FLTINV, "an empty x87 stack: SIGFPE, code %d", FPE_FLTINV);
    f = fault_of(reserved_bit, NULL);
    check(f.signo == SIGSEGV && f.code == SI_KERNEL, "a reserved bit of MXCSR: SIGSEGV");
    return check_done();
}
