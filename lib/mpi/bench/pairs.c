/*
 * pairs: 2 to 64 ranks; each sends to each of the others at the same time,
 * WINDOW messages before it waits for all.  Each line is a cell, "pairs N", and
 * the nanoseconds of a message of N bytes: the time of a batch over the messages
 * that one rank sends in it, the fastest of BATCHES.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 25, MOST = 16384, WINDOW = 16, WINDOWS = 10, MOST_RANKS = 64 };

static int rank, ranks;

static void window(int bytes, const char *out, char *in)
{
    static MPI_Request requests[2 * WINDOW * MOST_RANKS];
    int n = 0;
    for (int w = 0; w < WINDOW; w++)
        for (int away = 1; away < ranks; away++)
            MPI_Irecv(in, bytes, MPI_BYTE, (rank + away) % ranks, w, MPI_COMM_WORLD, &requests[n++]);
    for (int w = 0; w < WINDOW; w++)
        for (int away = 1; away < ranks; away++)
            MPI_Isend(out, bytes, MPI_BYTE, (rank + away) % ranks, w, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/** Nanoseconds of a message. */
static double batch(int bytes, const char *out, char *in)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < WINDOWS; i++)
        window(bytes, out, in);
    MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / (WINDOWS * WINDOW * (ranks - 1)) * 1e9;
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 8, 64, 512, 4096, MOST };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2 || ranks > MOST_RANKS) {
        fprintf(stderr, "pairs: 2 to %d ranks, please\n", MOST_RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *out = calloc(1, MOST), *in = calloc(1, MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double best = batch(sizes[i], out, in); /* once for nothing */
        for (int b = 0; b < BATCHES; b++) {
            double ns = batch(sizes[i], out, in);
            best = ns < best ? ns : best;
        }
        if (rank == 0)
            printf("pairs %d: %.0f\n", sizes[i], best);
    }
    MPI_Finalize();
    return 0;
}
