/*
 * nonblocking: two ranks; each line is a cell and its nanoseconds, the fastest
 * of BATCHES batches, which a loaded machine disturbs least.
 *
 *   flag             one way of a word stored until the other process sees it
 *   OPERATION N      started and waited for, of N bytes from each to each
 *   blocking ...     the same by the blocking call
 *   persistent ...   the same, initialised once
 *   neighbor ...     on a ring: each rank has two neighbours, which are the other
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flag.h"
#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#endif

enum { BATCHES = 15, MOST = 1 << 20, RANKS = 2 };
enum operation { BARRIER, BCAST, ALLREDUCE, ALLGATHER, ALLTOALL, GATHER, SCATTER, NEIGHBOR, OPERATIONS };
enum way { NONBLOCKING, BLOCKING, PERSISTENT, WAYS };

static const char *const names[] = { "barrier", "bcast", "allreduce", "allgather",
                                     "alltoall", "gather", "scatter", "neighbor alltoall" };
static const char *const ways[] = { "", "blocking ", "persistent " };

static int rank;
static char *out, *in;
static MPI_Comm ring;
static enum operation operation;

#define BYTES_OUT out, bytes, MPI_BYTE
#define BYTES_IN in, bytes, MPI_BYTE
#define DOUBLES out, in, bytes / 8, MPI_DOUBLE, MPI_SUM

static void start(int bytes, MPI_Request *r)
{
    MPI_Comm world = MPI_COMM_WORLD;
    switch (operation) {
    case BARRIER: MPI_Ibarrier(world, r); break;
    case BCAST: MPI_Ibcast(BYTES_IN, 0, world, r); break;
    case ALLREDUCE: MPI_Iallreduce(DOUBLES, world, r); break;
    case ALLGATHER: MPI_Iallgather(BYTES_OUT, BYTES_IN, world, r); break;
    case ALLTOALL: MPI_Ialltoall(BYTES_OUT, BYTES_IN, world, r); break;
    case GATHER: MPI_Igather(BYTES_OUT, BYTES_IN, 0, world, r); break;
    case SCATTER: MPI_Iscatter(BYTES_OUT, BYTES_IN, 0, world, r); break;
    default: MPI_Ineighbor_alltoall(BYTES_OUT, BYTES_IN, ring, r);
    }
}

static void call(int bytes)
{
    MPI_Comm world = MPI_COMM_WORLD;
    switch (operation) {
    case BARRIER: MPI_Barrier(world); break;
    case BCAST: MPI_Bcast(BYTES_IN, 0, world); break;
    case ALLREDUCE: MPI_Allreduce(DOUBLES, world); break;
    case ALLGATHER: MPI_Allgather(BYTES_OUT, BYTES_IN, world); break;
    case ALLTOALL: MPI_Alltoall(BYTES_OUT, BYTES_IN, world); break;
    case GATHER: MPI_Gather(BYTES_OUT, BYTES_IN, 0, world); break;
    case SCATTER: MPI_Scatter(BYTES_OUT, BYTES_IN, 0, world); break;
    default: MPI_Neighbor_alltoall(BYTES_OUT, BYTES_IN, ring);
    }
}

static void initialise(int bytes, MPI_Request *r)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    switch (operation) {
    case BARRIER: INIT(Barrier)(world, none, r); break;
    case BCAST: INIT(Bcast)(BYTES_IN, 0, world, none, r); break;
    case ALLREDUCE: INIT(Allreduce)(DOUBLES, world, none, r); break;
    case ALLGATHER: INIT(Allgather)(BYTES_OUT, BYTES_IN, world, none, r); break;
    case ALLTOALL: INIT(Alltoall)(BYTES_OUT, BYTES_IN, world, none, r); break;
    case GATHER: INIT(Gather)(BYTES_OUT, BYTES_IN, 0, world, none, r); break;
    case SCATTER: INIT(Scatter)(BYTES_OUT, BYTES_IN, 0, world, none, r); break;
    default: INIT(Neighbor_alltoall)(BYTES_OUT, BYTES_IN, ring, none, r);
    }
}

static void run(enum way way, int turns, int bytes)
{
    MPI_Request request;
    if (way == PERSISTENT)
        initialise(bytes, &request);
    for (int t = 0; t < turns; t++) {
        if (way == BLOCKING) {
            call(bytes);
            continue;
        }
        if (way == PERSISTENT)
            MPI_Start(&request);
        else
            start(bytes, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (way == PERSISTENT)
        MPI_Request_free(&request);
}

static void cell(enum way way, int bytes)
{
    int turns = bytes <= 1024 ? 300 : bytes < MOST ? 40 : 4;
    double best = 1e30;
    run(way, turns, bytes); /* once for nothing */
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        run(way, turns, bytes);
        double ns = (MPI_Wtime() - begin) / turns * 1e9;
        best = ns < best ? ns : best;
    }
    if (rank == 0)
        printf("%s%s %d: %.0f\n", ways[way], names[operation], bytes, best);
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 8, 1024, 16384, 65536, MOST };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){ RANKS }, (int[]){ 1 }, 0, &ring);
    out = calloc(RANKS, MOST);
    in = calloc(RANKS, MOST);
    print_flag("", rank);
    for (operation = 0; operation < OPERATIONS; operation++)
        for (int s = 0; s < (operation == BARRIER ? 1 : 5); s++)
            for (enum way way = 0; way < WAYS; way++)
                cell(way, sizes[s]);
    MPI_Finalize();
    return 0;
}
