// Numbers to text and back in the C library: printf and strtod at the extremes
// of double, float and long double; every value survives the round trip.
#include "../common/check.h"
#include <float.h>
#include <math.h>

static void show(double d)
{
    printf("%.17g %a %.3e %.6f %g\n", d, d, d, fabs(d) < 1e20 ? d : 0.0, d);
}

int main(void)
{
    static const double values[] = {0.0, -0.0, 1.0 / 3, 0.1, 1e23, 9007199254740993.0, DBL_MAX, DBL_MIN, 0x1p-1074,
                                    123456789.125, -2.5, 0.5, 1.5, 1e-5, 99999.95, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        show(values[i]);
    int doubles = 0, floats = 0, wide = 0, short_ones = 0;
    char text[64];
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t raw = seq_word(i) & ~(UINT64_C(1) << 62); // no nan, no infinity
        double d, narrow_enough = (double)(i * 1001) / 1000;
        memcpy(&d, &raw, 8);
        snprintf(text, sizeof text, "%.17g", d);
        doubles += strtod(text, NULL) == d;
        float f = (float)narrow_enough;
        snprintf(text, sizeof text, "%.9g", (double)f);
        floats += strtof(text, NULL) == f;
        long double l = (long double)d / 3;
        snprintf(text, sizeof text, "%.21Lg", l);
        wide += strtold(text, NULL) == l;
        snprintf(text, sizeof text, "%.3f", narrow_enough);
        short_ones += strtod(text, NULL) == narrow_enough;
    }
    check(doubles == 20000, "20,000 doubles through 17 digits");
    check(floats == 20000, "floats through 9");
    check(wide == 20000, "long doubles through 21");
    check(short_ones == 20000, "thousandths through 3 decimals");
    printf("%.60f\n%.40Lf\n%.0f\n", 0.1, 0.1L, DBL_MAX);
    check(strtod("1e400", NULL) == HUGE_VAL && errno == ERANGE, "1e400 is out of range");
    check(strtod("0x1.8p3xyz", NULL) == 12, "hexadecimal");
    check(strtod("4.9406564584124654e-324", NULL) == 0x1p-1074, "the least denormal");
    check(strtod("2.4703282292062327e-324", NULL) == 0, "half of it is zero");
    return check_done();
}
