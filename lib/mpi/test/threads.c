/*
 * threads: MPI_THREAD_MULTIPLE.  Each thread of each rank talks to the threads
 * of the same number, by tag in one communicator: short, medium and long
 * messages, all ways to wait, and at the end a pool that all threads empty by
 * matched probes with wildcards.  And counters in windows, which threads of all
 * ranks use at once, and locks of several targets.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 60, POOL = 200, INTS = 40000, POOL_TAG = 100, COUNTS = 2000 };

static int rank, size;
static atomic_int failures, taken, sum;
static MPI_Win counted, locked;
static int64_t *counters, *guarded;

static void expect(int right, const char *what)
{
    if (!right && atomic_fetch_add(&failures, 1) < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void wait_in_turn(MPI_Request *both, int round)
{
    int done = 0, index;
    switch (round % 3) {
    case 0: MPI_Waitall(2, both, MPI_STATUSES_IGNORE); break;
    case 1:
        while (!done)
            MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE);
        break;
    default:
        MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
        MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
    }
}

static void talk(int me, int *out, int *in)
{
    static const int counts[] = { 1, 10, 1000, INTS };
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int count = counts[round % 4];
        MPI_Request both[2];
        for (int i = 0; i < count; i++)
            out[i] = rank + me + round + i;
        MPI_Irecv(in, count, MPI_INT, round % 2 ? MPI_ANY_SOURCE : from, me, MPI_COMM_WORLD,
                  &both[0]);
        if (round % 5 == 0)
            MPI_Issend(out, count, MPI_INT, to, me, MPI_COMM_WORLD, &both[1]);
        else
            MPI_Isend(out, count, MPI_INT, to, me, MPI_COMM_WORLD, &both[1]);
        wait_in_turn(both, round);
        for (int i = 0; i < count; i++)
            if (in[i] != from + me + round + i) {
                expect(0, "a thread's message is another's");
                break;
            }
    }
}

/** Blocking calls only: a thread waits while others make progress. */
static void block(int me)
{
    for (int round = 0; round < ROUNDS; round++) {
        int word = round;
        if ((rank + round) % 2 == 0 && rank + 1 < size)
            MPI_Send(&word, 1, MPI_INT, rank + 1, 50 + me, MPI_COMM_WORLD);
        if ((rank + round) % 2 == 1 && rank > 0) {
            word = -1;
            MPI_Recv(&word, 1, MPI_INT, rank - 1, 50 + me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(word == round, "a blocking receive of a thread");
        }
    }
}

static void empty_pool(int me)
{
    for (int i = me; i < POOL; i += THREADS)
        MPI_Send(&i, 1, MPI_INT, (rank + 1) % size, POOL_TAG, MPI_COMM_WORLD);
    while (atomic_load(&taken) < POOL) {
        int there, word;
        MPI_Message message;
        MPI_Improbe(MPI_ANY_SOURCE, POOL_TAG, MPI_COMM_WORLD, &there, &message,
                    MPI_STATUS_IGNORE);
        if (!there)
            continue;
        MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        atomic_fetch_add(&sum, word);
        atomic_fetch_add(&taken, 1);
    }
}

/** By one instruction, and by all elements at once. */
static void count(void)
{
    int64_t ones[2] = { 1, 1 }, got;
    for (int i = 0; i < COUNTS; i++) {
        MPI_Fetch_and_op(ones, &got, MPI_INT64_T, 0, i % 2, MPI_SUM, counted);
        MPI_Accumulate(ones, 2, MPI_INT64_T, 0, 0, 2, MPI_INT64_T, MPI_SUM, counted);
        MPI_Win_flush(0, counted);
    }
}

/** Each thread of a rank at another target. */
static void add_locked(int me)
{
    int64_t word;
    int target = (rank + me) % size;
    for (int i = 0; i < COUNTS && me < size; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, locked);
        MPI_Get(&word, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, locked);
        MPI_Win_flush(target, locked);
        word++;
        MPI_Put(&word, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, locked);
        MPI_Win_unlock(target, locked);
    }
}

static void open_windows(void)
{
    MPI_Win_allocate(2 * sizeof *counters, sizeof *counters, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &counters, &counted);
    MPI_Win_allocate(sizeof *guarded, sizeof *guarded, MPI_INFO_NULL, MPI_COMM_WORLD, &guarded,
                     &locked);
    counters[0] = counters[1] = *guarded = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, counted);
}

static void judge_windows(void)
{
    MPI_Win_unlock_all(counted);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t calls = (int64_t)size * THREADS * COUNTS, users = size < THREADS ? size : THREADS;
    expect(rank != 0 || counters[0] + counters[1] == 3 * calls, "threads lost an accumulate");
    expect(*guarded == users * COUNTS, "threads had a lock at once");
    MPI_Win_free(&counted);
    MPI_Win_free(&locked);
}

static void *run(void *argument)
{
    int me = (int)(long)argument;
    int *out = malloc(INTS * sizeof *out), *in = malloc(INTS * sizeof *in);
    talk(me, out, in);
    block(me);
    empty_pool(me);
    if (size > 1) {
        count();
        add_locked(me);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, all, mine;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect(provided == MPI_THREAD_MULTIPLE, "no MPI_THREAD_MULTIPLE");
    if (size > 1)
        open_windows();
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect(sum == POOL * (POOL - 1) / 2, "the pool's messages");
    if (size > 1)
        judge_windows();
    mine = failures;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("threads: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
