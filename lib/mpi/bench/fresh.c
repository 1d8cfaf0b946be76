/*
 * fresh: collectives of data that is written before each call, and whose result is read
 * after it, as programs do.  Each line is a cell and the nanoseconds of all three, the
 * fastest of BATCHES batches.  What collectives.c times are calls alone, of data that
 * stays: there nothing tells what it costs to write lines that a peer has read.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flag.h"

enum { BATCHES = 7, BATCH_US = 2000, MOST_BYTES = 1 << 20 };

static int rank, ranks;
static double *out, *in;
static volatile double seen;

static void write_out(int bytes)
{
    static double serial;
    serial++;
    for (int i = 0; i < bytes / 8; i++)
        out[i] = serial + i;
}

static void read_in(int bytes)
{
    double sum = 0;
    for (int i = 0; i < bytes / 8; i++)
        sum += ((volatile double *)in)[i];
    seen = sum;
}

static void do_bcast(int bytes)
{
    if (rank == 0)
        write_out(bytes);
    MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank > 0)
        read_in(bytes);
}

static void do_reduce(int bytes)
{
    write_out(bytes);
    MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        read_in(bytes);
}

static void do_allreduce(int bytes)
{
    write_out(bytes);
    MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    read_in(bytes);
}

static void do_allgather(int bytes)
{
    write_out(bytes);
    MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    read_in(ranks * bytes);
}

static void do_alltoall(int bytes)
{
    write_out(ranks * bytes);
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    read_in(ranks * bytes);
}

static void do_gather(int bytes)
{
    write_out(bytes);
    MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        read_in(ranks * bytes);
}

static void do_scatter(int bytes)
{
    if (rank == 0)
        write_out(ranks * bytes);
    MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    read_in(bytes);
}

static const struct {
    const char *name;
    void (*run)(int bytes);
} operations[] = {
    { "bcast", do_bcast },         { "reduce", do_reduce },     { "allreduce", do_allreduce },
    { "allgather", do_allgather }, { "alltoall", do_alltoall }, { "gather", do_gather },
    { "scatter", do_scatter },
};

/** Seconds of one, in a batch of so many. */
static double batch(void (*run)(int), int bytes, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        run(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / calls;
}

static void measure(const char *name, void (*run)(int), int bytes)
{
    double best = batch(run, bytes, 5);
    int calls = 1 + (int)(BATCH_US * 1e-6 / best);
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int b = 0; b < BATCHES; b++) {
        double took = batch(run, bytes, calls);
        best = took < best ? took : best;
    }
    if (rank == 0)
        printf("%s %d: %.0f\n", name, bytes, best * 1e9);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t bytes = (size_t)ranks * MOST_BYTES;
    out = aligned_alloc(4096, bytes);
    in = aligned_alloc(4096, bytes);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(out, 0, bytes);
    memset(in, 0, bytes);
    if (ranks == 2)
        print_flag("begin: ", rank);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
        for (int n = 8; n <= MOST_BYTES; n *= n < 1024 ? 128 : 4)
            measure(operations[o].name, operations[o].run, n);
    if (ranks == 2)
        print_flag("end: ", rank);
    MPI_Finalize();
    return 0;
}
