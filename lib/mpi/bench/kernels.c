/*
 * kernels [BATCHES [KERNEL...]]: what applications do between and in their messages, in small,
 * after the NAS Parallel Benchmarks.  Each line is a cell and the nanoseconds of a
 * step, the fastest of BATCHES (15) batches, which a loaded machine disturbs least.
 *
 *   cg N       conjugate gradient on N^3 points of a rank: planes to and from both
 *              neighbours (Isend, Irecv, Waitall), two sums
 *   lu N       wavefronts there and back: from one neighbour N doubles, to the
 *              other what was computed of them (Recv, Send), BLOCKS times
 *   ft N       lines of N complex numbers transformed, transposed (Alltoall), and back
 *   is N       N integers of a rank sorted over all (Alltoall, Alltoallv)
 *   ep N       N points of a rank in the circle counted, one sum
 *
 * Any number of ranks that divides 64.  What is wrong ends the job.
 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "flag.h"

enum { BATCH_US = 20000, CG_STEPS = 60, BLOCKS = 32, MOST_RANKS = 64 };

static int rank, ranks, before, after; /* MPI_PROC_NULL at the ends */

static void must(bool right, const char *what)
{
    if (!right) {
        fprintf(stderr, "kernels: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void *memory(size_t bytes)
{
    void *start = calloc(1, bytes);
    must(start != NULL, "out of memory");
    return start;
}

static double sum_over_ranks(double own)
{
    double sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* cg: a cube of n^3 points in a frame of zeros, and of the neighbours' planes */

static struct cube cg;
static double cg_rr;
static int cg_steps;

static void cg_restart(void)
{
    cg_rr = sum_over_ranks(cube_fill(&cg, rank));
    cg_steps = 0;
}

static void cg_begin(int n)
{
    cg.n = n;
    cg.plane = (size_t)(n + 2) * (size_t)(n + 2);
    double **vectors[] = { &cg.x, &cg.r, &cg.p, &cg.q };
    for (int i = 0; i < 4; i++)
        *vectors[i] = memory(cg.plane * (size_t)(n + 2) * sizeof(double));
    cg_restart();
}

static void cg_exchange(void)
{
    MPI_Request requests[4];
    int count = (int)cg.plane;
    double *first = cg.p + cg.plane, *last = cg.p + (size_t)cg.n * cg.plane;
    MPI_Irecv(first - cg.plane, count, MPI_DOUBLE, before, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(last + cg.plane, count, MPI_DOUBLE, after, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(first, count, MPI_DOUBLE, before, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(last, count, MPI_DOUBLE, after, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void cg_step(void)
{
    if (cg_steps++ == CG_STEPS)
        cg_restart();
    cg_exchange();
    double alpha = cg_rr / sum_over_ranks(cube_apply(&cg));
    double rr = sum_over_ranks(cube_advance(&cg, alpha));
    cube_turn(&cg, rr / cg_rr);
    cg_rr = rr;
}

static void cg_end(void)
{
    cg_restart();
    double start = cg_rr;
    for (int i = 0; i < CG_STEPS; i++)
        cg_step();
    must(cg_rr < start * 1e-16, "cg: it does not converge");
    free(cg.x), free(cg.r), free(cg.p), free(cg.q);
}

/* lu: each rank adds 1 on the way there, and on the way back */

static struct {
    int n;
    double *values;
} lu;

static void lu_begin(int n)
{
    lu.n = n;
    lu.values = memory((size_t)n * sizeof *lu.values);
}

static void lu_sweep(int from, int to)
{
    for (int block = 0; block < BLOCKS; block++) {
        if (from == MPI_PROC_NULL)
            values_fill(lu.values, lu.n, block);
        MPI_Recv(lu.values, lu.n, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        values_add_one(lu.values, lu.n);
        MPI_Send(lu.values, lu.n, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
    }
}

static void lu_step(void)
{
    lu_sweep(before, after);
    lu_sweep(after, before);
}

static void lu_end(void)
{
    lu_step();
    for (int i = 0; i < lu.n; i++)
        must(lu.values[i] == BLOCKS - 1 + i + ranks - rank, "lu: a wrong value");
    free(lu.values);
}

/* ft: an n x n matrix by lines */

static struct {
    int n, lines;
    double complex *matrix, *sent, *start, *roots;
} ft;

static double complex ft_value(int line, int i) { return (line * 13 + i * 7) % 17 - 8 + (line + i) % 5 * I; }

static void ft_begin(int n)
{
    ft.n = n;
    ft.lines = n / ranks;
    size_t bytes = (size_t)n * (size_t)ft.lines * sizeof *ft.matrix;
    ft.matrix = memory(bytes);
    ft.sent = memory(bytes);
    ft.roots = memory((size_t)n * sizeof *ft.roots);
    for (int i = 0; i < n; i++)
        ft.roots[i] = cexp(-2 * M_PI * I * i / n);
    for (int line = 0; line < ft.lines; line++)
        for (int i = 0; i < n; i++)
            ft.matrix[line * n + i] = ft_value(rank * ft.lines + line, i);
}

static void ft_transpose(void)
{
    lines_to_blocks(ft.matrix, ft.lines, ft.n, ft.sent);
    int count = ft.lines * ft.lines * 2;
    double complex *got = memory((size_t)ft.n * (size_t)ft.lines * sizeof *got);
    MPI_Alltoall(ft.sent, count, MPI_DOUBLE, got, count, MPI_DOUBLE, MPI_COMM_WORLD);
    blocks_to_lines(got, ft.lines, ft.n, ft.matrix);
    free(got);
}

static void ft_transform(bool back)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int line = 0; line < ft.lines; line++)
            line_transform(ft.matrix + line * ft.n, ft.n, ft.roots, back);
        ft_transpose();
    }
}

static void ft_step(void)
{
    ft_transform(false);
    ft_transform(true);
    numbers_divide(ft.matrix, (size_t)ft.n * (size_t)ft.lines, (double)ft.n * ft.n);
}

static void ft_end(void)
{
    for (int line = 0; line < ft.lines; line++)
        for (int i = 0; i < ft.n; i++)
            must(cabs(ft.matrix[line * ft.n + i] - ft_value(rank * ft.lines + line, i)) < 1e-6,
                 "ft: not what it was");
    free(ft.matrix), free(ft.sent), free(ft.roots);
}

/* is: keys below KEYS, of which each rank gets a range */

static struct {
    int n, got;
    uint64_t random;
    int32_t *keys, *sent, *received;
} is;

static void is_begin(int n)
{
    is.n = n;
    is.random = (uint64_t)rank + 1;
    is.keys = memory((size_t)n * sizeof *is.keys);
    is.sent = memory((size_t)n * sizeof *is.sent);
    is.received = memory((size_t)n * (size_t)ranks * sizeof *is.received);
}

static void is_step(void)
{
    int width = KEYS / ranks, counts[MOST_RANKS] = { 0 }, places[MOST_RANKS], at[MOST_RANKS];
    int theirs[MOST_RANKS], to[MOST_RANKS];
    keys_draw(is.keys, is.n, width, &is.random, counts);
    MPI_Alltoall(counts, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    places[0] = to[0] = 0;
    for (int r = 1; r < ranks; r++) {
        places[r] = places[r - 1] + counts[r - 1];
        to[r] = to[r - 1] + theirs[r - 1];
    }
    memcpy(at, places, sizeof at);
    keys_deal(is.keys, is.n, width, at, is.sent);
    is.got = to[ranks - 1] + theirs[ranks - 1];
    MPI_Alltoallv(is.sent, counts, places, MPI_INT32_T, is.received, theirs, to, MPI_INT32_T,
                  MPI_COMM_WORLD);
    keys_sort(is.received, is.got, rank * width, width);
}

static void is_end(void)
{
    is_step();
    for (int i = 0; i < is.got; i++)
        must(is.received[i] / (KEYS / ranks) == rank && (i == 0 || is.received[i - 1] <= is.received[i]),
             "is: not in order");
    must(sum_over_ranks(is.got) == (double)is.n * ranks, "is: keys are lost");
    free(is.keys), free(is.sent), free(is.received);
}

/* ep: pi by random points */

static struct {
    int n;
    uint64_t random;
    double inside;
} ep;

static void ep_begin(int n)
{
    ep.n = n;
    ep.random = (uint64_t)rank + 1;
}

static void ep_step(void)
{
    ep.inside = sum_over_ranks(points_inside(ep.n, &ep.random));
}

static void ep_end(void)
{
    double pi = 4 * ep.inside / ((double)ep.n * ranks);
    must(fabs(pi - M_PI) < 5 / sqrt(ep.n), "ep: that is not pi");
}

static const struct kernel {
    const char *name;
    void (*begin)(int n), (*step)(void), (*end)(void);
    int sizes[4];
} kernels[] = {
    { "cg", cg_begin, cg_step, cg_end, { 12, 24, 48, 96 } },
    { "lu", lu_begin, lu_step, lu_end, { 10, 200, 2000, 20000 } },
    { "ft", ft_begin, ft_step, ft_end, { 64, 256, 512 } },
    { "is", is_begin, is_step, is_end, { 1 << 12, 1 << 16, 1 << 19 } },
    { "ep", ep_begin, ep_step, ep_end, { 1 << 12, 1 << 16 } },
};

enum { KERNELS = sizeof kernels / sizeof *kernels };

static bool is_kernel(const char *name)
{
    for (size_t k = 0; k < KERNELS; k++)
        if (strcmp(kernels[k].name, name) == 0)
            return true;
    return false;
}

/** All are, if the arguments name none. */
static bool is_wanted(const struct kernel *kernel, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(kernel->name, argv[i]) == 0)
            return true;
    return argc < 3;
}

/** Seconds of so many steps, of all ranks. */
static double time_of(const struct kernel *kernel, int steps)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < steps; i++)
        kernel->step();
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start;
}

static void run(const struct kernel *kernel, int size, int batches)
{
    kernel->begin(size);
    kernel->step(); /* once for nothing */
    double best = time_of(kernel, 3) / 3;
    int steps = 1 + (int)(BATCH_US * 1e-6 / best);
    MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int batch = 0; batch < batches; batch++)
        best = fmin(best, time_of(kernel, steps) / steps);
    kernel->end();
    if (rank == 0)
        printf("%s %d: %.0f\n", kernel->name, size, best * 1e9);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(MOST_RANKS % ranks == 0, "a number of ranks that divides 64, please");
    before = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    after = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    if (ranks == 2)
        print_flag("begin: ", rank);
    for (char **name = argv + 2; name < argv + argc; name++)
        must(is_kernel(*name), "cg, lu, ft, is or ep, please");
    for (size_t k = 0; k < KERNELS; k++)
        for (int i = 0; i < 4 && kernels[k].sizes[i] > 0 && is_wanted(&kernels[k], argc, argv); i++)
            run(&kernels[k], kernels[k].sizes[i], argc > 1 ? atoi(argv[1]) : 15);
    if (ranks == 2)
        print_flag("end: ", rank);
    MPI_Finalize();
    return 0;
}
