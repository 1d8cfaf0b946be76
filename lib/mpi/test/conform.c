/*
 * The conformance set: all collectives over layouts, operations, sizes, roots,
 * in-place variants, memory and communicators, against the model; then what
 * the model does not have: barriers separate, floating-point results are the same
 * bits, intercommunicators fall back, truncation is an error.
 *
 *     conform [EVERY]     takes each EVERY-th case only (1)
 */
#include "model.h"

#include <time.h>

static int every = 1;

static int rounds(int all)
{
    return all / every > 10 ? all / every : 10;
}

static void report(const char *what, int wrong)
{
    if (wrong)
        fprintf(stderr, "conform: %s: %d wrong\n", what, wrong);
    failures += wrong;
}

static void enumerate(MPI_Comm comm)
{
    int number = 0;
    static const int counts[] = { 0, 1, 2, 5, 40, 341, 900, 5000, 30000 };
    int size;
    MPI_Comm_size(comm, &size);
    for (int what = 0; what < COLLECTIVES; what++)
        for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int variant = 0; variant < 2 * OPERATIONS; variant++) {
                struct params p = {
                    .what = what, .count = counts[c], .in_place = variant % 2,
                    .root = (variant + (int)c) % size, .where = variant % 5 == 3,
                    .send = variant % LAYOUTS, .receive = variant / 2 % LAYOUTS,
                    .operation = variant / 2,
                };
                /* The largest cost the most and are alike: take some. */
                if (p.count > 4000 && (what < MOVES || size > 3) && variant > 8 / size)
                    continue;
                if (number++ % every == 0)
                    run_case(&p, comm);
            }
}

/** MPI_Wtime may count from another origin in each process; this does not. */
static double node_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** No rank leaves a barrier before the last has entered it. */
static void check_barrier(MPI_Comm comm)
{
    int rank, size, early = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < rounds(200); i++) {
        double entered = node_time(), last;
        if (i % 20 == rank)
            for (double end = entered + 1e-4; entered < end;)
                entered = node_time();
        MPI_Barrier(comm);
        double left = node_time();
        MPI_Allreduce(&entered, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
        early += left < last;
    }
    report("barrier", early);
}

/** Sums of arbitrary doubles: the same bits on all ranks, in place or not. */
__attribute__((unused)) static void check_bits(MPI_Comm comm)
{
    enum { N = 20000 };
    static double x[N];
    double *sum = malloc(sizeof x), *again = malloc(sizeof x), *root = malloc(sizeof x);
    int rank, differ = 0;
    MPI_Comm_rank(comm, &rank);
    for (int n = 1; n <= N; n = n * 3 + 1) {
        for (int i = 0; i < n; i++)
            x[i] = value(rank, i) * 1.1e-7;
        MPI_Allreduce(x, sum, n, MPI_DOUBLE, MPI_SUM, comm);
        memcpy(again, x, sizeof x);
        MPI_Allreduce(MPI_IN_PLACE, again, n, MPI_DOUBLE, MPI_SUM, comm);
        memcpy(root, sum, sizeof x);
        MPI_Bcast(root, n, MPI_DOUBLE, 0, comm);
        differ += memcmp(sum, again, (size_t)n * sizeof *x) != 0;
        differ += memcmp(sum, root, (size_t)n * sizeof *x) != 0;
    }
    report("bits", differ);
    free(sum);
    free(again);
    free(root);
}

static void check_intercommunicator(int rank, int size)
{
    MPI_Comm half, inter;
    int group = rank % 2, got = 0, sum = 0;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, group, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - group, 7, &inter);
    MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, inter);
    for (int r = 1 - group; r < size; r += 2)
        sum += r;
    report("intercommunicator", got != sum);
    MPI_Barrier(inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/** The sender gives more than the receivers hold: an error at each of them. */
__attribute__((unused)) static void check_truncation(int rank)
{
    MPI_Comm comm;
    int data[8] = { 0 }, class = MPI_SUCCESS;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int error = MPI_Bcast(data, rank == 0 ? 8 : 4, MPI_INT, 0, comm);
    MPI_Error_class(error, &class);
    report("truncation", rank == 0 ? class != MPI_SUCCESS : class != MPI_ERR_TRUNCATE);
    MPI_Comm_free(&comm);
}

/** Communicators that come and go, and messages that need progress. */
static void check_lifetimes(int rank, int size)
{
    int sum = 0, wrong = 0;
    static int large[200000];
    for (int i = 0; i < rounds(60); i++) {
        MPI_Comm comm;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        int data = rank == i % size ? i : -1;
        MPI_Isend(large, i % 2 ? 200000 : 10, MPI_INT, (rank + 1) % size, 3, comm, &request);
        MPI_Bcast(&data, 1, MPI_INT, i % size, comm);
        wrong += data != i;
        static int into[200000];
        MPI_Recv(into, 200000, MPI_INT, (rank + size - 1) % size, 3, comm,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        wrong += sum != size * (size - 1) / 2;
        MPI_Comm_free(&comm);
    }
    report("lifetimes", wrong);
}

int main(int argc, char **argv)
{
    MPI_Comm reversed, part;
    int rank, size, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && atoi(argv[1]) > 0)
        every = atoi(argv[1]);
    model_start();
    enumerate(MPI_COMM_WORLD);
    check_barrier(MPI_COMM_WORLD);
#ifndef MPICH_NUMVERSION /* MPI requires neither; coll/smartmap promises it */
    check_bits(MPI_COMM_WORLD);
    check_truncation(rank);
#endif
    check_lifetimes(rank, size);
    check_intercommunicator(rank, size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    enumerate(reversed);
    MPI_Comm_split(reversed, rank % 3 == 1, rank, &part);
    enumerate(part);
    MPI_Comm_free(&part);
    MPI_Comm_free(&reversed);
    model_stop();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("conform: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
