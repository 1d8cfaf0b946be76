/*
 * flood MESSAGES [bounded]: so many messages that no receive takes until the
 * last has come.  All come, once and in order, and what they take of memory is
 * bounded, and used again by a second flood.
 *
 * "bounded": the receiver's memory is; then the job ends with one line.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { FLOODS = 2, TAGS = 7, LAST = 1000, MOST_BYTES = 400, SPARE_BYTES = 64 << 20 };

static int rank, wrong;

static void expect(int right, const char *what)
{
    if (!right && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/** Of this process: resident, or addresses. */
static size_t bytes_of(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    if (status)
        fclose(status);
    return kib * 1024;
}

static void bound_memory(void)
{
    struct rlimit limit = { bytes_of("VmSize:"), RLIM_INFINITY };
    if (rank == 1)
        setrlimit(RLIMIT_AS, &limit);
}

static void send_all(int count)
{
    for (int i = 0; i < count; i++)
        MPI_Send(&i, 1, MPI_INT, 1, i % TAGS, MPI_COMM_WORLD);
    MPI_Send(&count, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD);
}

static void receive_all(int count)
{
    int number, there = 0, right = 1;
    while (!there)
        MPI_Iprobe(0, LAST, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    size_t bytes = bytes_of("VmRSS:");
    for (int i = 0; i < count; i++) {
        MPI_Recv(&number, 1, MPI_INT, i % 2 ? 0 : MPI_ANY_SOURCE, i % TAGS, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        right = right && number == i;
    }
    expect(right, "messages are lost, or out of order");
    MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(number == count, "the last is not the last");
    fprintf(stderr, "%d messages: %zu MiB\n", count, bytes >> 20);
    expect(bytes < SPARE_BYTES + (size_t)count * MOST_BYTES, "they take too much memory");
}

int main(int argc, char **argv)
{
    int all, count = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2)
        bound_memory();
    for (int i = 0; i < FLOODS; i++) {
        if (rank == 0)
            send_all(count);
        else if (rank == 1)
            receive_all(count);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("flood: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
