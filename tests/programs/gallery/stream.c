// Memory bandwidth by the four kernels of McCalpin's STREAM (copy, scale, add,
// triad), written anew. Each is timed ROUNDS times, the best counts; afterwards
// the arrays must hold what ROUNDS rounds of scalar arithmetic give.
//
//   stream [ITEMS [ROUNDS]]       default: 2,000,000 items of 8 bytes, 10 rounds
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { KERNELS = 4 };
static const char *const names[KERNELS] = {"copy", "scale", "add", "triad"};
static const int arrays_touched[KERNELS] = {2, 2, 3, 3};
static const double scalar = 3.0;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void copy(double *restrict c, const double *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i];
    // Keeps the compiler from merging one kernel with the next.
    __asm__ volatile("" ::: "memory");
}
static void scale(double *restrict b, const double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = scalar * c[i];
    __asm__ volatile("" ::: "memory");
}
static void add(double *restrict c, const double *restrict a, const double *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
    __asm__ volatile("" ::: "memory");
}
static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + scalar * c[i];
    __asm__ volatile("" ::: "memory");
}

// The largest deviation of an array from the value that all items must have,
// relative to it.
static double deviation(const double *v, size_t n, double expected)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(v[i] - expected) / expected;
        worst = d > worst ? d : worst;
    }
    return worst;
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    if (n == 0 || n > SIZE_MAX / 64 || rounds < 1) {
        fprintf(stderr, "usage: stream [ITEMS [ROUNDS]]\n");
        return 2;
    }
    // Three arrays in one map; a few cache lines apart, so that they do not
    // fall on the same sets of a cache.
    size_t stride = n + 64;
    double *memory = mmap(NULL, 3 * stride * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("stream: memory for the arrays");
        return 1;
    }
    double *a = memory, *b = memory + stride, *c = memory + 2 * stride;
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
    double best_s[KERNELS] = {INFINITY, INFINITY, INFINITY, INFINITY};
    double ea = 1.0, eb = 2.0, ec = 0.0;
    for (int r = 0; r < rounds; r++) {
        double t[KERNELS + 1];
        t[0] = now_s();
        copy(c, a, n);
        t[1] = now_s();
        scale(b, c, n);
        t[2] = now_s();
        add(c, a, b, n);
        t[3] = now_s();
        triad(a, b, c, n);
        t[4] = now_s();
        for (int k = 0; k < KERNELS; k++)
            best_s[k] = fmin(best_s[k], t[k + 1] - t[k]);
        ec = ea;
        eb = scalar * ec;
        ec = ea + eb;
        ea = eb + scalar * ec;
    }
    printf("STREAM  %zu items of 8 bytes, 3 arrays of %.1f MB, best of %d\n", n, (double)n * 8e-6, rounds);
    for (int k = 0; k < KERNELS; k++)
        printf("  %-6s %10.1f MB/s\n", names[k], (double)arrays_touched[k] * 8e-6 * (double)n / best_s[k]);
    double worst = fmax(deviation(a, n, ea), fmax(deviation(b, n, eb), deviation(c, n, ec)));
    if (!(worst < 1e-13)) {
        printf("  FAILED: relative error %g\n", worst);
        return 1;
    }
    printf("  validated\n");
    return 0;
}
