// FFTW (Debian's libfftw3-double3) with its own threads, and a plan executed by
// several threads at once. Transforms are checked by what is known of them:
// back and forth gives the input, the first element is the sum of all.
#include "../common/parallel.h"

#include <dlfcn.h>

enum { FORWARD = -1, BACKWARD = 1, ESTIMATE = 1 << 6, LINE = 4096, SIDE = 64, CALLERS = 4 };
typedef double number[2];
typedef struct fftw_plan_s *plan_t;

static int (*init_threads)(void);
static void (*with_threads)(int), (*execute)(plan_t), (*execute_dft)(plan_t, number *, number *), (*destroy)(plan_t);
static void *(*get)(size_t);
static plan_t (*dft_1d)(int, number *, number *, int, unsigned), (*dft_2d)(int, int, number *, number *, int, unsigned);

static void load(void)
{
    void *fftw = dlopen("libfftw3_threads.so.3", RTLD_NOW);
    need(fftw != NULL, "libfftw3_threads.so.3");
    *(void **)&init_threads = dlsym(fftw, "fftw_init_threads");
    *(void **)&with_threads = dlsym(fftw, "fftw_plan_with_nthreads");
    // Of libfftw3.so.3, which that one needs.
    *(void **)&execute = dlsym(fftw, "fftw_execute");
    *(void **)&execute_dft = dlsym(fftw, "fftw_execute_dft");
    *(void **)&destroy = dlsym(fftw, "fftw_destroy_plan");
    *(void **)&get = dlsym(fftw, "fftw_malloc");
    *(void **)&dft_1d = dlsym(fftw, "fftw_plan_dft_1d");
    *(void **)&dft_2d = dlsym(fftw, "fftw_plan_dft_2d");
    need(init_threads && with_threads && execute && execute_dft && destroy && get && dft_1d && dft_2d, "its functions");
}

static double input(int i, int part) { return (double)(seq_word((uint64_t)(2 * i + part)) >> 40) / (1 << 24) - 0.5; }
static int near(double a, double b) { return a - b < 1e-9 && a - b > -1e-9; }

// The transform of `count` elements and back: plans that lead from one array into the other and back again.
static int both_ways(plan_t there, plan_t back, number *from, number *to, int count)
{
    double sums[2] = {0, 0};
    int right = 1;
    for (int i = 0; i < count; i++)
        for (int part = 0; part < 2; part++)
            sums[part] += from[i][part] = input(i, part);
    execute_dft(there, from, to);
    right &= near(to[0][0], sums[0]) && near(to[0][1], sums[1]);
    execute_dft(back, to, from);
    for (int i = 0; i < count; i++)
        right &= near(from[i][0] / count, input(i, 0)) && near(from[i][1] / count, input(i, 1));
    return right;
}

static plan_t line_plans[2];
static void *transform(void *arg)
{
    number *from = get(LINE * sizeof *from), *to = get(LINE * sizeof *to);
    intptr_t right = 1;
    for (int i = 0; i < 5; i++)
        right &= both_ways(line_plans[0], line_plans[1], from, to, LINE);
    return right ? arg : NULL;
}

int main(void)
{
    pthread_t threads[CALLERS];
    load();
    number *from = get(LINE * sizeof *from), *to = get(LINE * sizeof *to);
    check(init_threads() != 0, "it has threads of its own");
    for (int count = 1; count <= 4; count++) {
        with_threads(count);
        plan_t there = dft_1d(LINE, from, to, FORWARD, ESTIMATE), back = dft_1d(LINE, to, from, BACKWARD, ESTIMATE);
        check(both_ways(there, back, from, to, LINE), "a line by %d threads", count);
        plan_t on = dft_2d(SIDE, SIDE, from, to, FORWARD, ESTIMATE), off = dft_2d(SIDE, SIDE, to, from, BACKWARD, ESTIMATE);
        check(both_ways(on, off, from, to, SIDE * SIDE), "a plane by %d threads", count);
        destroy(on);
        destroy(off);
        line_plans[0] = there;
        line_plans[1] = back;
    }
    int right = 1;
    for (intptr_t i = 0; i < CALLERS; i++)
        threads[i] = start(transform, (void *)(i + 1));
    for (int i = 0; i < CALLERS; i++)
        right &= joined(threads[i]) != NULL;
    check(right, "one plan, of 4 threads, executed by %d threads at once", CALLERS);
    return check_done();
}
