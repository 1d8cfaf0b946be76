/*
 * meet: memory runs out in pml/smartmap of rank 1 while the job's processes
 * meet.  It did not vote, and the others waited for that in MPI_Init for
 * ever.  Now all of them leave messages to ob1.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

static int fails, failed;

/** In place of libc's: the libraries call it here. */
void *calloc(size_t count, size_t bytes)
{
    if (fails && is_called_by(__builtin_return_address(0), "mca_pml_smartmap")) {
        failed = 1;
        return NULL;
    }
    void *memory = reallocarray(NULL, count, bytes); /* of malloc gcc would make this calloc */
    return memory ? memset(memory, 0, count * bytes) : NULL;
}

int main(int argc, char **argv)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    int rank, size, got = -1, wrong, all;
    fails = number && strcmp(number, "1") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong = got != (rank + size - 1) % size || failed != fails;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("meet: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
