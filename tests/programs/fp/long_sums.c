// Long sums in double and float, forwards, backwards, compensated and pairwise,
// printed as exact bits: every operation must round as the CPU natively does.
#include "../common/check.h"
#include <math.h>

enum { N = 1000000 };
static double x[N], y[N];

static double pairwise(const double *v, int n)
{
    return n == 1 ? v[0] : pairwise(v, n / 2) + pairwise(v + n / 2, n - n / 2);
}

static double compensated(const double *v, int n)
{
    double sum = 0, lost = 0;
    for (int i = 0; i < n; i++) {
        volatile double term = v[i] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum;
}

int main(void)
{
    double forwards = 0, backwards = 0, dot = 0, alternating = 0, roots = 0;
    float narrow = 0;
    for (int i = 0; i < N; i++) {
        x[i] = 1.0 / (i + 1);
        y[i] = (double)(int64_t)seq_word((uint64_t)i) * 0x1p-63;
    }
    for (int i = 0; i < N; i++) {
        forwards += x[i];
        backwards += x[N - 1 - i];
        dot += x[i] * y[i];
        alternating += i % 2 ? -x[i] : x[i];
        roots += sqrt(x[i]) * 1e-3;
        narrow += (float)x[i];
    }
    printf("forwards    %a\n", forwards);
    printf("backwards   %a\n", backwards);
    printf("pairwise    %a\n", pairwise(x, N));
    printf("compensated %a\n", compensated(x, N));
    printf("dot         %a\n", dot);
    printf("alternating %a\n", alternating);
    printf("roots       %a\n", roots);
    printf("narrow      %a\n", (double)narrow);
    check(fabs(forwards - 14.392726722865724) < 1e-9, "the harmonic number of a million");
    check(fabs(alternating - log(2)) < 1e-6, "the alternating one tends to ln 2");

    // A chaotic map: one wrong bit anywhere shows in all of them.
    double z = 0.3;
    for (int i = 0; i < 5000000; i++)
        z = 3.9 * z * (1 - z);
    printf("logistic    %a\n", z);
    return check_done();
}
