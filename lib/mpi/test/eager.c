/*
 * eager: sends of up to 16 KiB complete while their receiver computes: it is in
 * no call of MPI until a word in shared memory says that they have.
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EACH = 4, MOST = 16384, LIMIT_S = 60 };

static int rank, wrong;
static _Atomic int *sent; /* sizes that rank 0 is done with */

static void send_all(char *data, int bytes, int done)
{
    MPI_Request request;
    memset(data, bytes % 100, (size_t)bytes);
    for (int i = 0; i < EACH - 1; i++)
        MPI_Send(data, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD);
    MPI_Isend(data, bytes, MPI_BYTE, 1, EACH - 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memset(data, 0, (size_t)bytes); /* the buffer is ours again */
    atomic_store(sent, done);
}

static void receive_all(char *data, int bytes, int done)
{
    time_t end = time(NULL) + LIMIT_S;
    while (atomic_load(sent) < done && time(NULL) < end)
        sched_yield();
    if (atomic_load(sent) < done) {
        wrong++;
        fprintf(stderr, "sends of %d bytes wait for their receiver\n", bytes);
    }
    for (int i = 0; i < EACH; i++) {
        MPI_Recv(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int j = 0; j < bytes; j++)
            wrong += data[j] != bytes % 100;
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 0, 8, 48, 49, 112, 113, 240, 241, 1024, 4096, MOST };
    int all, unit;
    MPI_Win window;
    MPI_Aint bytes;
    char *data = malloc(MOST);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate_shared(rank ? 0 : sizeof *sent, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &sent, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &sent);
    atomic_store(sent, 0);
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            send_all(data, sizes[i], i + 1);
        else if (rank == 1)
            receive_all(data, sizes[i], i + 1);
    }
    MPI_Win_free(&window);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("eager: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
