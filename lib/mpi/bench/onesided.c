/*
 * onesided: two ranks; each line is a cell and its nanoseconds, the fastest of
 * BATCHES batches, which a loaded machine disturbs least; of cells "both" the
 * median, for in the fastest batch the other rank was kept from running.
 * "allocate" and "create" are the ways the window was made.
 *
 *   flag            one way of a word stored until the other process sees it
 *   put, get N      with MPI_Win_flush, from rank 0 while rank 1 waits
 *   column N        a put of N doubles to every second place
 *   fetch_and_op    a counter of rank 1, used by rank 0; "both": by both at once
 *   accumulate N    of N doubles by MPI_SUM, with flush
 *   lock            an exclusive lock and unlock of rank 1; "both": by both
 *   fence           by both; "pscw": post, start, a put of 8 bytes, complete, wait
 *
 * With WITHOUT in the environment there is no compare_and_swap (see compare).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flag.h"

enum { BATCHES = 15, MOST = 1 << 20 };

static int rank;
static char *local;
static MPI_Win win;
static MPI_Group other;
static MPI_Datatype column;

static void put(int turns, int bytes)
{
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
        MPI_Win_flush(1, win);
    }
}

static void get(int turns, int bytes)
{
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Get(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
        MPI_Win_flush(1, win);
    }
}

static void put_column(int turns, int doubles)
{
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Put(local, doubles, MPI_DOUBLE, 1, 0, 1, column, win);
        MPI_Win_flush(1, win);
    }
}

static void fetch_and_op(int turns, int both)
{
    int64_t one = 1, before;
    for (int i = 0; i < turns && (both || rank == 0); i++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 0, MPI_SUM, win);
        MPI_Win_flush(1, win);
    }
}

static void compare_and_swap(int turns, int unused)
{
    int64_t zero = 0, before;
    (void)unused;
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Compare_and_swap(&zero, &zero, &before, MPI_INT64_T, 1, 0, win);
        MPI_Win_flush(1, win);
    }
}

static void accumulate(int turns, int doubles)
{
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Accumulate(local, doubles, MPI_DOUBLE, 1, 0, doubles, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_flush(1, win);
    }
}

static void lock(int turns, int both)
{
    for (int i = 0; i < turns && (both || rank == 0); i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Win_unlock(1, win);
    }
}

static void lock_all(int turns, int unused)
{
    (void)unused;
    for (int i = 0; i < turns && rank == 0; i++) {
        MPI_Win_lock_all(0, win);
        MPI_Win_unlock_all(win);
    }
}

static void fence(int turns, int unused)
{
    (void)unused;
    for (int i = 0; i < turns; i++)
        MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void pscw(int turns, int unused)
{
    (void)unused;
    for (int i = 0; i < turns; i++) {
        MPI_Win_post(other, 0, win);
        MPI_Win_start(other, 0, win);
        MPI_Put(local, 8, MPI_BYTE, 1 - rank, 0, 8, MPI_BYTE, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
}

static int by_time(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void cell(const char *kind, const char *name, int size, int turns, double parts,
                 void (*run)(int turns, int size))
{
    double ns[BATCHES];
    run(turns, size); /* once for nothing */
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(turns, size);
        ns[b] = (MPI_Wtime() - start) / turns / parts * 1e9;
    }
    qsort(ns, BATCHES, sizeof ns[0], by_time);
    if (rank == 0)
        printf("%s: %s %d: %.1f\n", kind, name, size, ns[strstr(name, "both") ? BATCHES / 2 : 0]);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void cells(const char *kind)
{
    static const int sizes[] = { 8, 1024, 65536, MOST }, doubles[] = { 1, 8, 64, 1024, 131072 };
    memset(local, 1, MOST);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 4; i++) {
        int turns = sizes[i] < 65536 ? 1000 : sizes[i] < MOST ? 50 : 4;
        cell(kind, "put", sizes[i], turns, 1, put);
        cell(kind, "get", sizes[i], turns, 1, get);
    }
    cell(kind, "column", 512, 100, 1, put_column);
    memset(local, 0, MOST);
    for (int i = 0; i < 5; i++)
        cell(kind, "accumulate", doubles[i], doubles[i] <= 1024 ? 200 : 4, 1, accumulate);
    cell(kind, "fetch_and_op", 0, 1000, 1, fetch_and_op);
    cell(kind, "fetch_and_op both", 1, 20000, 1, fetch_and_op);
    if (!getenv("WITHOUT"))
        cell(kind, "compare_and_swap", 0, 1000, 1, compare_and_swap);
    MPI_Win_unlock_all(win);
    cell(kind, "lock", 0, 1000, 1, lock);
    cell(kind, "lock both", 1, 10000, 1, lock);
    cell(kind, "lock_all", 0, 1000, 1, lock_all);
    cell(kind, "fence", 0, 500, 1, fence);
    cell(kind, "pscw", 8, 500, 1, pscw);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Group world;
    char *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){ 1 - rank }, &other);
    MPI_Type_vector(512, 1, 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    local = malloc(MOST);
    MPI_Win words = open_word(rank);
    cell("machine", "flag", 8, 1000, 2, flag);
    MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, MOST);
    cells("allocate");
    base = calloc(1, MOST);
    MPI_Win_create(base, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    cells("create");
    free(base);
    MPI_Win_free(&words);
    MPI_Finalize();
    return 0;
}
