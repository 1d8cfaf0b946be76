// The four rounding modes on double, float and long double arithmetic, on
// conversions and on rint, as exact bits; the mode survives system calls.
#include "../common/check.h"
#include <fenv.h>
#include <math.h>

static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
static const char *const names[] = {"nearest", "down", "up", "zero"};

int main(void)
{
    // volatile, so that nothing is computed by the compiler.
    volatile double one = 1, three = 3, tenth = 0.1, big = 1e308, half = 2.5, minus = -2.5;
    volatile float onef = 1, threef = 3;
    volatile long double onel = 1, threel = 3;
    for (int m = 0; m < 4; m++) {
        need(fesetround(modes[m]) == 0, "fesetround");
        volatile double third = one / three, sum = tenth + three, root = sqrt(three), negative = -one / three;
        volatile float thirdf = onef / threef;
        volatile long double thirdl = onel / threel;
        volatile double large = big * 10, r1 = rint(half), r2 = rint(minus);
        volatile long l1 = lrint(half), l2 = lrint(minus);
        volatile float narrowed = (float)tenth;
        volatile double from_int = (double)((INT64_C(1) << 53) + one);
        volatile double from_long = (double)(INT64_C(9007199254740993) + (long)one - 1);
        getppid();
        usleep(1);
        int kept = fegetround() == modes[m];
        need(fesetround(FE_TONEAREST) == 0, "fesetround");
        printf("%s: %a %a %a %a %a %La\n", names[m], third, negative, sum, root, (double)thirdf, thirdl);
        printf("  overflow %a, rint %g %g, lrint %ld %ld, narrowed %a, %a %a\n", large, r1, r2, l1, l2, (double)narrowed,
               from_int, from_long);
        check(kept, "%s survives system calls", names[m]);
    }
    check(fegetround() == FE_TONEAREST, "back to nearest");
    return check_done();
}
