/*
 * died: rank 1 dies while rank 0 sends to it and rank 2 waits for it.  Both
 * must end with a line that says so: on Linux, where its memory stays in their
 * windows, and on a node of Margay, where it goes with it.
 *
 * Needs a launcher that lets survivors go on (Open MPI: --enable-recovery).
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGES = 500 };

int main(int argc, char **argv)
{
    int rank, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank != 1 || i < MESSAGES; i++) {
        if (rank == 0) {
            MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    kill(getpid(), SIGKILL);
}
