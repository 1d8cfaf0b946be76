/*
 * messages: two ranks; each line is a cell and its nanoseconds, the fastest of
 * BATCHES batches, which a loaded machine disturbs least.
 *
 *   flag            one way of a word stored until the other process sees it
 *   one way N       half a round of N bytes; "any": received from MPI_ANY_SOURCE;
 *                   "new": from one buffer, written before it is sent, into another
 *   column N        half a round of N bytes, doubles 128 bytes apart on both sides
 *   swap N          both write N bytes and send them to each other: Irecv, Isend, Waitall
 *   stream N        one message of many in one direction; "both": in both; "new":
 *                   each from a place of its own, and written before it is sent
 *   posted, unexpected   a round of 8 bytes with 1,000 others before the match
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flag.h"

enum { BATCHES = 25, MOST = 4 << 20, WINDOW = 64, OTHERS = 1000, OTHER_TAG = 1000 };

static int rank;
static char *out, *in;

/** One buffer for both ways: what is sent was written since it was last read. */
static void ping_pong(int turns, int count, MPI_Datatype type, int source)
{
    for (int i = 0; i < turns; i++) {
        if (rank == 0)
            MPI_Send(in, count, type, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, count, type, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(in, count, type, 0, 0, MPI_COMM_WORLD);
    }
}

static void one_way(int turns, int bytes) { ping_pong(turns, bytes, MPI_BYTE, 1 - rank); }

/** As programs do: what is sent was computed since the last time. */
static void one_way_new(int turns, int bytes)
{
    for (int i = 0; i < turns; i++) {
        if (rank == 1)
            MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memset(out, i, (size_t)bytes);
        MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void one_way_any(int turns, int bytes) { ping_pong(turns, bytes, MPI_BYTE, MPI_ANY_SOURCE); }

static void column(int turns, int bytes)
{
    MPI_Datatype type;
    MPI_Type_vector(bytes / 8, 1, 16, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    ping_pong(turns, 1, type, 1 - rank);
    MPI_Type_free(&type);
}

static void swap(int turns, int bytes)
{
    MPI_Request requests[2];
    for (int i = 0; i < turns; i++) {
        memset(out, i, (size_t)bytes);
        MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void stream_by(int turns, int bytes, int senders)
{
    MPI_Request requests[2 * WINDOW];
    for (int i = 0; i < turns; i += WINDOW) {
        int n = 0;
        for (int w = 0; w < WINDOW && (senders == 2 || rank == 1); w++)
            MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[n++]);
        for (int w = 0; w < WINDOW && (senders == 2 || rank == 0); w++)
            MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[n++]);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(out, 1, MPI_BYTE, 1 - rank, 1, in, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void stream(int turns, int bytes) { stream_by(turns, bytes, 1); }

static void stream_both(int turns, int bytes) { stream_by(turns, bytes, 2); }

static void stream_new(int turns, int bytes)
{
    MPI_Request requests[WINDOW];
    for (int i = 0; i < turns; i += WINDOW) {
        for (int w = 0; w < WINDOW; w++) {
            char *place = (rank ? in : out) + w * bytes;
            if (rank == 1) {
                MPI_Irecv(place, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[w]);
                continue;
            }
            memset(place, i + w, (size_t)bytes);
            MPI_Isend(place, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(out, 1, MPI_BYTE, 1 - rank, 1, in, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/** The fastest batch, in ns of `parts` per turn. */
static void cell(const char *name, int bytes, int turns, double parts,
                 void (*run)(int turns, int bytes))
{
    double best = 1e30;
    run(turns, bytes); /* once for nothing */
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(turns, bytes);
        double ns = (MPI_Wtime() - start) / turns / parts * 1e9;
        best = ns < best ? ns : best;
    }
    if (rank == 0)
        printf("%s %d: %.0f\n", name, bytes, best);
}

static void with_posted(void)
{
    MPI_Request others[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        MPI_Irecv(in + i, 1, MPI_BYTE, 1 - rank, OTHER_TAG + i, MPI_COMM_WORLD, &others[i]);
    cell("posted", 8, 200, 2, one_way);
    for (int i = 0; i < OTHERS; i++)
        MPI_Send(out, 1, MPI_BYTE, 1 - rank, OTHER_TAG + i, MPI_COMM_WORLD);
    MPI_Waitall(OTHERS, others, MPI_STATUSES_IGNORE);
}

static void with_unexpected(void)
{
    for (int i = 0; i < OTHERS; i++)
        MPI_Send(out, 1, MPI_BYTE, 1 - rank, OTHER_TAG + i, MPI_COMM_WORLD);
    cell("unexpected", 8, 200, 2, one_way);
    for (int i = 0; i < OTHERS; i++)
        MPI_Recv(in, 1, MPI_BYTE, 1 - rank, OTHER_TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 8, 64, 1024, 4096, 16384, 65536, 262144, 1048576, MOST };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    out = malloc(MOST);
    in = malloc(MOST);
    memset(out, 1, MOST);
    memset(in, 1, MOST);
    MPI_Win win = open_word(rank);
    cell("flag", 8, 1000, 2, flag);
    for (int i = 0; i < 9; i++) {
        int turns = sizes[i] <= 4096 ? 500 : sizes[i] <= 262144 ? 50 : 5;
        cell("one way", sizes[i], turns, 2, one_way);
        cell("one way new", sizes[i], turns, 2, one_way_new);
        cell("swap", sizes[i], turns, 1, swap);
    }
    cell("one way any", 8, 500, 2, one_way_any);
    for (int i = 2; i < 6; i++)
        cell("column", sizes[i], 100, 2, column);
    for (int i = 0; i < 6; i++) {
        cell("stream", sizes[i], 640, 1, stream);
        cell("stream both", sizes[i], 640, 2, stream_both);
        cell("stream new", sizes[i], 640, 1, stream_new);
    }
    with_posted();
    with_unexpected();
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
