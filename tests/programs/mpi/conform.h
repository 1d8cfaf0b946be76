// Shared by the MPI programs: a check is of all ranks, and rank 0 prints it.
#ifndef MARGAY_CONFORM_H
#define MARGAY_CONFORM_H

#include "../common/check.h"

#include <mpi.h>

static int rank, size;
// The next rank and the one before, around.
static int next, last;

// Whether it holds on every rank: one line, of rank 0, and another one that names the ranks where it does not.
CHECK_HELPER int agree(int ok, const char *what)
{
    int mine = ok ? 0 : 1 << rank, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    if (rank == 0 && !check(all == 0, "%s", what)) {
        printf("     not on ranks of the set %#x\n", all);
        fflush(stdout);
    }
    return all == 0;
}

CHECK_HELPER void begin(int *argc, char ***argv, int threads)
{
    int provided;
    MPI_Init_thread(argc, argv, threads, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    agree(provided >= threads && size > 1, "begins");
}

// The exit status: of rank 0, which has printed.
CHECK_HELPER int end(void)
{
    MPI_Finalize();
    return rank == 0 ? check_done() : 0;
}

// Element i of what a rank sends.
CHECK_HELPER int value(int of, int i) { return of * 1000003 + i * 7 + 1; }

CHECK_HELPER void fill(int *data, int count, int of)
{
    for (int i = 0; i < count; i++)
        data[i] = value(of, i);
}

CHECK_HELPER int is_from(const int *data, int count, int of)
{
    for (int i = 0; i < count; i++)
        if (data[i] != value(of, i))
            return 0;
    return 1;
}

// The class of an error that a call returned.
CHECK_HELPER int class_of(int error)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(error, &class);
    return class;
}

#endif
