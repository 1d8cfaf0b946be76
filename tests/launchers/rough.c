// Rank 1 writes to nowhere before MPI_Init (argument `before`) or inside of it (`inside`: where the MPI starts its first thread), or
// all ranks reduce for ever (`reduce`) and say so when they begin.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_inside;

static int is_rank_1(void)
{
    const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK"), *rank = open_mpi ? open_mpi : mpich;
    return rank && strcmp(rank, "1") == 0;
}

static void crash(void) { *(volatile int *)8 = 1; }

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (is_inside && is_rank_1())
        crash();
    return real(thread, attr, start, arg);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int rank, one = 1, sum = 0;
    if (strcmp(way, "before") == 0 && is_rank_1())
        crash();
    is_inside = strcmp(way, "inside") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d reduces\n", rank);
    fflush(stdout);
    while (strcmp(way, "reduce") == 0)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
