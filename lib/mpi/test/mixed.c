/*
 * Large point-to-point messages in both directions, then collectives; prints
 * one line.  Run with the preload on all, some or no ranks: the answer is the
 * same.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 300000 };

int main(int argc, char **argv)
{
    int rank, size, wrong = 0, all, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *out = malloc(N * sizeof *out), *in = malloc(N * sizeof *in);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < N; i++)
            out[i] = rank * 1000 + round + i;
        int left = (rank + size - 1) % size, right = (rank + 1) % size;
        MPI_Sendrecv(out, N - round, MPI_INT, right, 1, in, N, MPI_INT, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < N - round; i++)
            wrong += in[i] != left * 1000 + round + i;
        MPI_Allreduce(MPI_IN_PLACE, in, N - round, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        wrong += in[N / 2] != (size - 1) * 1000 + round + N / 2;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != size * (size - 1) / 2;
        MPI_Bcast(out, N, MPI_INT, round % size, MPI_COMM_WORLD);
        wrong += out[7] != round % size * 1000 + round + 7;
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("mixed: %d wrong\n", all);
    MPI_Finalize();
    return 0;
}
