// The five IEEE exception flags, raised by SSE and by x87 arithmetic, cleared,
// kept over system calls; results of invalid operations.
#include "../common/check.h"
#include <fenv.h>
#include <math.h>

static void show(const char *what, double result)
{
    int flags = fetestexcept(FE_ALL_EXCEPT);
    getppid();
    int kept = fetestexcept(FE_ALL_EXCEPT) == flags;
    printf("%-28s %a%s%s%s%s%s%s\n", what, result, flags & FE_INVALID ? " invalid" : "",
           flags & FE_DIVBYZERO ? " divbyzero" : "", flags & FE_OVERFLOW ? " overflow" : "",
           flags & FE_UNDERFLOW ? " underflow" : "", flags & FE_INEXACT ? " inexact" : "", kept ? "" : " NOT KEPT");
    feclearexcept(FE_ALL_EXCEPT);
}

int main(void)
{
    volatile double zero = 0, one = 1, three = 3, big = 1e308, tiny = 1e-308, inf = INFINITY, nan = NAN;
    volatile float narrow = 1e-30f;
    volatile long double onel = 1, zerol = 0, threel = 3, bigl = 0x1p16383L;
    feclearexcept(FE_ALL_EXCEPT);
    show("1 + 1", one + one);
    show("1 / 3", one / three);
    show("1 / 0", one / zero);
    show("-1 / 0", -one / zero);
    show("1e308 * 10", big * 10);
    show("1e-308 / 1e10", tiny / 1e10);
    show("1e-308 / 2^1000", tiny / 0x1p1000);
    show("sqrt(-1)", sqrt(-one));
    show("inf + 1", inf + one);
    show("nan + 1", nan + one);
    show("nan < 1 (ordered)", nan < one);
    show("nan == 1 (quiet)", nan == one);
    show("(int) 1e308", (double)(int)big);
    show("(long) nan", (double)(long)nan);
    show("(int) 2.5", (double)(int)(three - 0.5));
    show("(float) 1e308", (float)big);
    show("1e-30f * 1e-30f", narrow * narrow);
    show("x87: 1 / 3", (double)(onel / threel));
    show("x87: 1 / 0", (double)(onel / zerol));
    show("x87: 2^16383 * 4", (double)(bigl * 4));
    // The signs of invalid results are left out: processors agree on them, but
    // the order of a sum's operands is the compiler's choice.
    show("inf - inf is a nan", isnan(inf - inf));
    show("0 * inf is a nan", isnan(zero * inf));
    show("0 / 0 is a nan", isnan(zero / zero));
    show("inf / inf is a nan", isnan(inf / inf));
    show("fmod(1, 0) is a nan", isnan(fmod(one, zero)));

    check(feraiseexcept(FE_OVERFLOW | FE_DIVBYZERO) == 0, "feraiseexcept");
    check(fetestexcept(FE_OVERFLOW) && fetestexcept(FE_DIVBYZERO) && !fetestexcept(FE_INVALID), "fetestexcept");
    fenv_t saved;
    check(feholdexcept(&saved) == 0 && fetestexcept(FE_ALL_EXCEPT) == 0, "feholdexcept clears them");
    show("in between: 1 / 3", one / three);
    check(fesetenv(&saved) == 0 && fetestexcept(FE_OVERFLOW), "fesetenv brings them back");
    return check_done();
}
