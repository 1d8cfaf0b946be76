/*
 * Messages beyond 2 GiB: bcast, send and allreduce of 288 M doubles per
 * rank, every value checked.  Needs about 10 GB; run by `LARGE=1 make check`.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 288 << 20 };

int main(int argc, char **argv)
{
    int rank, size;
    long wrong = 0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    if (!x || !y)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < N; i++)
        x[i] = rank == 0 ? (double)i : -1;
    MPI_Bcast(x, N, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (long i = 0; i < N; i++)
        wrong += x[i] != (double)i;
    MPI_Sendrecv(x, N, MPI_DOUBLE, (rank + 1) % size, 0, y, N, MPI_DOUBLE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long i = 0; i < N; i++)
        wrong += y[i] != (double)i;
    MPI_Allreduce(x, y, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < N; i++)
        wrong += y[i] != (double)i * size;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("large: %ld wrong\n", all);
    MPI_Finalize();
    return 0;
}
