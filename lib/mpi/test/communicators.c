/*
 * communicators: what one costs in memory is bounded as README.md says, and
 * given back: COUNT of them at once, and again.  What is allowed is twice that,
 * and something for huge pages; were nothing given back, it would be four times.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 200, CYCLES = 4, MOST_KIB = 44, SPARE_KIB = 16384 };

/** Memory of this process that is shared: its heap, and what it has seen of the others'. */
static long shared_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssShmem: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

/** Every rank is root once, so that all slots are used. */
static void use(MPI_Comm comm, int size)
{
    int word = 0;
    for (int i = 0; i < 20 * size; i++)
        MPI_Bcast(&word, 1, MPI_INT, i % size, comm);
    MPI_Barrier(comm);
}

static long cycle(int size)
{
    static MPI_Comm comms[COUNT];
    long most;
    for (int i = 0; i < COUNT; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        use(comms[i], size);
    }
    most = shared_kib();
    for (int i = 0; i < COUNT; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0, all;
    long first, last = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    use(MPI_COMM_WORLD, size);
    long before = shared_kib(), allowed = 2l * COUNT * MOST_KIB * size + SPARE_KIB;
    first = cycle(size);
    for (int i = 1; i < CYCLES; i++)
        last = cycle(size);
    if (first - before > allowed || last - before > allowed) {
        wrong = 1;
        fprintf(stderr, "rank %d: %d communicators take %ld KiB, after %d times as many %ld; "
                        "allowed: %ld\n", rank, COUNT, first - before, CYCLES, last - before, allowed);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("communicators: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
