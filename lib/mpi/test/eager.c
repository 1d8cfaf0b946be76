/*
 * eager: sends of up to 16 KiB complete while their receiver computes: it is in
 * no call of MPI until a word in shared memory shows that they have.  By another
 * word it lets the next ones go, so that it never polls for messages in vain,
 * when a library may make room.  Four sends, or as many as the argument says.
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16384, ROUNDS = 3, LIMIT_S = 60 };

static int rank, wrong, each = 4;
static _Atomic int *sent, *received; /* sizes that ranks 0 and 1 are done with */

static bool await(_Atomic int *word, int value)
{
    time_t end = time(NULL) + LIMIT_S;
    while (atomic_load(word) < value && time(NULL) < end)
        sched_yield();
    return atomic_load(word) >= value;
}

static void send_all(char *data, int bytes, int done)
{
    MPI_Request request;
    await(received, done - 1);
    memset(data, bytes % 100, (size_t)bytes);
    for (int i = 0; i < each - 1; i++)
        MPI_Send(data, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD);
    MPI_Isend(data, bytes, MPI_BYTE, 1, each - 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memset(data, 0, (size_t)bytes); /* the buffer is ours again */
    atomic_store(sent, done);
}

static void receive_all(char *data, int bytes, int done)
{
    if (!await(sent, done)) {
        wrong++;
        fprintf(stderr, "sends of %d bytes wait for their receiver\n", bytes);
    }
    for (int i = 0; i < each; i++) {
        MPI_Recv(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int j = 0; j < bytes; j++)
            wrong += data[j] != bytes % 100;
    }
    atomic_store(received, done);
}

int main(int argc, char **argv)
{
    /* 7000 and MOST: in small channels, with not quite a quarter read, at the ring's end. */
    static const int sizes[] = { 0, 8, 48, 49, 112, 113, 240, 241, 1024, 4096, 7000, 7000, MOST };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    int all, unit;
    MPI_Win window;
    MPI_Aint bytes;
    char *data = malloc(MOST);
    MPI_Init(&argc, &argv);
    if (argc > 1)
        each = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate_shared(rank ? 0 : 2 * sizeof *sent, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &sent, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &sent);
    received = sent + 1;
    atomic_store(sent, 0);
    atomic_store(received, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS * SIZES; i++)
        if (rank == 0)
            send_all(data, sizes[i % SIZES], i + 1);
        else if (rank == 1)
            receive_all(data, sizes[i % SIZES], i + 1);
    MPI_Win_free(&window);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("eager: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
