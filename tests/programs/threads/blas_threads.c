// OpenBLAS (Debian's libopenblas0-pthread) with its own threads, and called by
// several threads at once. Matrices of small integers, whose products are exact
// whatever kernel the processor gets and in whatever order it adds.
#include "../common/parallel.h"

#include <dlfcn.h>

enum { N = 96, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, CALLERS = 3 };

static void (*set_threads)(int);
static int (*get_threads)(void), (*get_parallel)(void);
static void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
static double (*ddot)(int, const double *, int, const double *, int);
static void (*dgesv)(const int *, const int *, double *, const int *, int *, double *, const int *, int *);

static void load(void)
{
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW);
    need(blas != NULL, "libopenblas.so.0");
    *(void **)&set_threads = dlsym(blas, "openblas_set_num_threads");
    *(void **)&get_threads = dlsym(blas, "openblas_get_num_threads");
    *(void **)&get_parallel = dlsym(blas, "openblas_get_parallel");
    *(void **)&dgemm = dlsym(blas, "cblas_dgemm");
    *(void **)&ddot = dlsym(blas, "cblas_ddot");
    *(void **)&dgesv = dlsym(blas, "dgesv_");
    need(set_threads && get_threads && get_parallel && dgemm && ddot && dgesv, "its functions");
}

static double a[N * N], b[N * N], wanted[N * N], wanted_t[N * N];
static void fill(void)
{
    for (int i = 0; i < N * N; i++) {
        a[i] = (int)(seq_word((uint64_t)i) >> 60) - 8;
        b[i] = (int)(seq_word((uint64_t)i + N * N) >> 60) - 8;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) {
                wanted[i * N + j] += a[i * N + k] * b[k * N + j];
                wanted_t[i * N + j] += a[k * N + i] * b[k * N + j];
            }
}

static int multiplied(int trans, const double *right)
{
    double *c = calloc(N * N, sizeof *c);
    dgemm(ROW_MAJOR, trans, NO_TRANS, N, N, N, 1, a, N, b, N, 0, c, N);
    int same = memcmp(c, right, sizeof wanted) == 0;
    free(c);
    return same;
}

static void *multiply(void *arg)
{
    intptr_t right = 1;
    for (int i = 0; i < 5; i++)
        right &= multiplied(NO_TRANS, wanted) && multiplied(TRANS, wanted_t);
    return right ? arg : NULL;
}

// A system whose solution is known: 1, 2, 3, ... The matrix is dominated by its diagonal.
static int solved(void)
{
    int n = N, one = 1, pivots[N], info;
    double x[N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            wanted[j * N + i] = a[i * N + j] + (i == j ? 8 * N : 0);
    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int j = 0; j < N; j++)
            x[i] += wanted[j * N + i] * (j + 1);
    }
    dgesv(&n, &one, wanted, &n, pivots, x, &n, &info);
    int right = info == 0;
    for (int i = 0; i < N; i++)
        right &= x[i] - (i + 1) < 1e-9 && x[i] - (i + 1) > -1e-9;
    return right;
}

int main(void)
{
    pthread_t threads[CALLERS];
    load();
    fill();
    check(get_parallel() == 1, "it has threads of its own");
    for (int count = 1; count <= 3; count++) {
        set_threads(count);
        check(get_threads() == count && multiplied(NO_TRANS, wanted) && multiplied(TRANS, wanted_t),
              "products by %d threads", count);
    }
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += a[i] * b[i];
    check(ddot(N * N, a, 1, b, 1) == sum, "a product of vectors");
    int right = 1;
    for (intptr_t i = 0; i < CALLERS; i++)
        threads[i] = start(multiply, (void *)(i + 1));
    for (int i = 0; i < CALLERS; i++)
        right &= joined(threads[i]) != NULL;
    check(right, "products for %d threads at once", CALLERS);
    check(solved(), "a system of equations");
    return check_done();
}
