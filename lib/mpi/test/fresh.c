/*
 * fresh: collectives and messages of data that is written anew each time, so that who reads it stores
 * into its lines (common/copy.h).  What is given stays as it is, and so does what lies beside
 * it in the same lines, although a thread of the owner counts there all the time.
 *
 *     fresh [ROUNDS]
 */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40000, LINE = 64, FIRST = 24, LAST = 40, TURNS = 6 };

static int rank, ranks, wrong;
static int serial; /* of what is given */
static double *given;        /* begins at `begin`, or ends at `end` */
static double *before, *got; /* of MOST numbers for each rank, as given */
static char *begin, *end;    /* in the middle of a line each */

/* A thread counts in the bytes before `begin` and from `end` on. */
static atomic_bool done;
static int lost;

static void *count_beside(void *unused)
{
    (void)unused;
    volatile uint8_t *before_it = (uint8_t *)begin - 1, *after_it = (uint8_t *)end;
    for (uint8_t count = 0; !atomic_load(&done); count++) {
        lost += *before_it != count || *after_it != count;
        *before_it = *after_it = (uint8_t)(count + 1);
        if (count == 0)
            sched_yield();
    }
    return NULL;
}

static double value(int from, int i)
{
    return (from + 1) * (i % 1000 + 1) + serial * 0.5;
}

static double sum_of(int i)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value(r, i);
    return sum;
}

static void expect(int right, const char *what, int n)
{
    if (!right && wrong++ < 10)
        fprintf(stderr, "fresh: rank %d: %s of %d numbers\n", rank, what, n);
}

/** What will be given, so many numbers, where one side of them is counted beside. */
static void give(int count, int at_end)
{
    serial++;
    given = at_end ? (double *)end - count : (double *)begin;
    for (int i = 0; i < count; i++)
        given[i] = before[i] = value(rank, i);
}

static void expect_kept(int count, const char *what)
{
    expect(memcmp(given, before, (size_t)count * sizeof *given) == 0, what, count);
}

/** Pieces of n from each rank, of that rank's i-th numbers from `first` on. */
static int pieces_right(int n, int first)
{
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < n; i++)
            if (got[r * n + i] != value(r, first + i))
                return 0;
    return 1;
}

static int sums_right(const double *sums, int n, int first)
{
    for (int i = 0; i < n; i++)
        if (sums[i] != sum_of(first + i))
            return 0;
    return 1;
}

static int from_root_right(const double *at, int n, int root, int first)
{
    for (int i = 0; i < n; i++)
        if (at[i] != value(root, first + i))
            return 0;
    return 1;
}

static void by_all(int n, int at_end)
{
    give(n, at_end);
    MPI_Allreduce(given, got, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(sums_right(got, n, 0), "allreduce", n);
    expect_kept(n, "given to allreduce");
    give(n, at_end);
    MPI_Allgather(given, n, MPI_DOUBLE, got, n, MPI_DOUBLE, MPI_COMM_WORLD);
    expect(pieces_right(n, 0), "allgather", n);
    expect_kept(n, "given to allgather");
    give(n, at_end);
    MPI_Scan(given, got, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(rank < ranks - 1 || sums_right(got, n, 0), "scan", n);
    expect_kept(n, "given to scan");
    give(n, at_end);
    MPI_Allreduce(MPI_IN_PLACE, given, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(sums_right(given, n, 0), "allreduce in place", n);
    give(n * ranks, at_end);
    MPI_Alltoall(given, n, MPI_DOUBLE, got, n, MPI_DOUBLE, MPI_COMM_WORLD);
    expect(pieces_right(n, rank * n), "alltoall", n);
    expect_kept(n * ranks, "given to alltoall");
    give(n * ranks, at_end);
    MPI_Reduce_scatter_block(given, got, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(sums_right(got, n, rank * n), "reduce_scatter_block", n);
    expect_kept(n * ranks, "given to reduce_scatter_block");
}

static void by_root(int n, int root, int at_end)
{
    give(n, at_end);
    MPI_Reduce(given, got, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    expect(rank != root || sums_right(got, n, 0), "reduce", n);
    expect_kept(n, "given to reduce");
    give(n, at_end);
    MPI_Gather(given, n, MPI_DOUBLE, got, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
    expect(rank != root || pieces_right(n, 0), "gather", n);
    expect_kept(n, "given to gather");
    give(n, at_end);
    MPI_Bcast(rank == root ? given : got, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
    expect(from_root_right(rank == root ? given : got, n, root, 0), "bcast", n);
    expect_kept(n, "given to bcast");
    give(n * ranks, at_end);
    MPI_Scatter(given, n, MPI_DOUBLE, got, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
    expect(from_root_right(got, n, root, rank * n), "scatter", n);
    expect_kept(n * ranks, "given to scatter");
}

/** To the next rank, by a blocking call or not. */
static void by_neighbours(int n, int at_end)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Request requests[2];
    give(n, at_end);
    MPI_Sendrecv(given, n, MPI_DOUBLE, next, 0, got, n, MPI_DOUBLE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(from_root_right(got, n, last, 0), "a message", n);
    expect_kept(n, "given to a message");
    give(n, at_end);
    MPI_Irecv(got, n, MPI_DOUBLE, last, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(given, n, MPI_DOUBLE, next, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    expect(from_root_right(got, n, last, 0), "a non-blocking message", n);
    expect_kept(n, "given to a non-blocking message");
}

/** Memory in whose lines the thread counts, too. */
static int allocate(void)
{
    size_t bytes = (size_t)MOST * (size_t)ranks * sizeof(double);
    char *area = aligned_alloc(LINE, bytes + 2 * LINE);
    before = malloc(bytes);
    got = malloc(bytes);
    if (!area || !before || !got)
        return 0;
    memset(area, 0, bytes + 2 * LINE);
    begin = area + FIRST;
    end = area + bytes + LAST;
    return 1;
}

int main(int argc, char **argv)
{
    static const int counts[] = { 150, 300, 515, 1025, 4099, MOST - 5 };
    int rounds = argc > 1 ? atoi(argv[1]) : 3, all, provided;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!allocate() || pthread_create(&thread, NULL, count_beside, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int round = 0; round < rounds; round++)
        for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int turn = 0; turn < TURNS; turn++) {
                by_all(counts[c], turn % 2);
                by_root(counts[c], (turn / 2 + round) % ranks, turn % 2);
                by_neighbours(counts[c], turn % 2);
            }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    wrong += lost;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("fresh: %d ranks: %d wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
