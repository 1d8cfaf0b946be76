// Passes a token around, reduces to all, and ends as its argument says: well, abort (MPI_Abort with 3), crash (rank 1 writes to nowhere),
// spin (never; all have met).
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "well";
    int rank, size, token = 0, sum, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: token %d, sum %d\n", rank, size, name, token, sum);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(way, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(way, "crash") == 0 && rank == 1)
        *(volatile int *)8 = 1;
    while (strcmp(way, "well") != 0)
        ;
    MPI_Finalize();
    return 0;
}
