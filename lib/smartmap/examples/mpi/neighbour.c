/*
 * ../neighbour.c by plain MPI: a window has locks, so the owner waits for its readers and they for it.
 */
#include "job.h"

enum { WORDS = 256, ROUNDS = 3000 };

static long array[WORDS];

static void compute(long round, MPI_Win window)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    for (int i = 0; i < WORDS; i++)
        array[i] = round * (i + 1);
    MPI_Win_unlock(rank, window);
}

/* Copies the array of a rank as it was at some moment. */
static void snapshot(int of, long copy[WORDS], MPI_Win window)
{
    MPI_Win_lock(MPI_LOCK_SHARED, of, 0, window);
    MPI_Get(copy, WORDS, MPI_LONG, of, 0, WORDS, MPI_LONG, window);
    MPI_Win_unlock(of, window);
}

int main(void)
{
    job_begin();
    MPI_Win window;
    MPI_Win_create(array, sizeof array, sizeof array[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    int next = (rank + 1) % ranks, is_right = 1;
    long copy[WORDS], last = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        compute(round, window);
        snapshot(next, copy, window);
        for (int i = 0; i < WORDS; i++)
            is_right &= copy[i] == copy[0] * (i + 1);
        is_right &= copy[0] >= last;
        last = copy[0];
    }
    job_done();
    snapshot(next, copy, window);
    MPI_Win_free(&window);
    return job_end("neighbour", is_right && copy[0] == ROUNDS);
}
