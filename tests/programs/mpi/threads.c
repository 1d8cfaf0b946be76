// MPI_THREAD_MULTIPLE: threads of a rank send, probe, reduce and use windows at the same time.
#include "conform.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 200, N = 3000 };
static MPI_Comm comms[THREADS];
static MPI_Win window;
static int right[THREADS];

// Runs it in all threads at once; whether each found all right.
static int in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    int all = 1;
    for (long t = 0; t < THREADS; t++) {
        right[t] = 1;
        need(pthread_create(&threads[t], NULL, body, (void *)t) == 0, "pthread_create");
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        all &= right[t];
    }
    return all;
}

// A token goes around for each thread, told apart by tags.
static void *tokens(void *number)
{
    int t = (long)number, in;
    for (int i = 0; i < ROUNDS; i++) {
        int token = value(rank, i + t);
        if (rank == 0)
            MPI_Send(&token, 1, MPI_INT, next, t, MPI_COMM_WORLD);
        MPI_Recv(&in, 1, MPI_INT, last, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank != 0)
            MPI_Send(&token, 1, MPI_INT, next, t, MPI_COMM_WORLD);
        right[t] &= in == value(last, i + t);
    }
    return NULL;
}

// Every thread takes what it finds on one communicator: each message comes once.
static int taken[64];
static void *probed(void *number)
{
    int t = (long)number, out[N], in[N], n;
    for (int i = 0; i < 16; i++) {
        MPI_Request request;
        MPI_Message message;
        MPI_Status status;
        for (int k = 0; k < N; k++)
            out[k] = t * 16 + i;
        MPI_Isend(out, 1 + (i % 4) * (N / 4), MPI_INT, next, 50, MPI_COMM_WORLD, &request);
        MPI_Mprobe(last, 50, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        MPI_Mrecv(in, n, MPI_INT, &message, MPI_STATUS_IGNORE);
        __atomic_fetch_add(&taken[in[0]], 1, __ATOMIC_SEQ_CST);
        right[t] &= in[n - 1] == in[0] && n == 1 + (in[0] % 4) * (N / 4);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void *reduced(void *number)
{
    int t = (long)number, out[N], in[N];
    for (int i = 0; i < 20; i++) {
        MPI_Request request;
        fill(out, N, rank + t + i);
        MPI_Allreduce(out, in, N, MPI_INT, MPI_MAX, comms[t]);
        right[t] &= is_from(in, N, size - 1 + t + i);
        fill(in, N, rank == i % size ? i : -1);
        MPI_Ibcast(in, N, MPI_INT, i % size, comms[t], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        right[t] &= is_from(in, N, i);
        MPI_Barrier(comms[t]);
    }
    return NULL;
}

static void *counted(void *number)
{
    int one = 1, before, t = (long)number;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT, 0, t % 2, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    return NULL;
}

// One thread waits for a message that another thread of the same rank sends.
static void *to_oneself(void *number)
{
    int t = (long)number, token = 5;
    if (t == 0)
        MPI_Recv(&token, 1, MPI_INT, rank, 60, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (t == 1)
        MPI_Send(&(int){6}, 1, MPI_INT, rank, 60, MPI_COMM_WORLD);
    right[t] &= t != 0 || token == 6;
    return NULL;
}

int main(int argc, char **argv)
{
    int *mine, main_thread = 0, all = 1;
    begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Is_thread_main(&main_thread);
    agree(main_thread, "the main thread is known");
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    agree(in_threads(tokens), "tokens of all threads");
    all = in_threads(probed);
    for (int i = 0; i < THREADS * 16; i++)
        all &= taken[i] == 1;
    agree(all, "each message is one thread's");
    agree(in_threads(reduced), "collectives of all threads");
    agree(in_threads(to_oneself), "a thread sends to another of its rank");
    MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    mine[0] = mine[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    in_threads(counted);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    all = rank != 0 || mine[0] + mine[1] == THREADS * ROUNDS * size;
    MPI_Win_unlock(rank, window);
    agree(all, "counters of all threads");
    MPI_Win_free(&window);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&comms[t]);
    return end();
}
