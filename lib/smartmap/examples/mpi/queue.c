/*
 * ../queue.c by plain MPI: the next task is taken by MPI_Fetch_and_op on rank 0's counter, and what is found is put there.
 */
#include "job.h"

enum { TASKS = 20000 };

/* Rank 0's are used. */
static struct {
    int next;
    int found[TASKS], times[TASKS];
} queue;

enum { NEXT = 0, FOUND = 1, TIMES = 1 + TASKS }; /* in ints */

/* Steps of 3n + 1 from n to 1: some tasks take much longer than others. */
static int work(long n)
{
    int steps = 0;
    for (; n != 1; steps++)
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    return steps;
}

static int take(MPI_Win window)
{
    const int one = 1;
    int task;
    MPI_Fetch_and_op(&one, &task, MPI_INT, 0, NEXT, MPI_SUM, window);
    MPI_Win_flush(0, window);
    return task;
}

int main(void)
{
    job_begin();
    MPI_Win window;
    MPI_Win_create(&queue, sizeof queue, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    const int one = 1;
    int task, is_right = 1;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    while ((task = take(window)) < TASKS) {
        int steps = work(task + 1);
        MPI_Put(&steps, 1, MPI_INT, 0, FOUND + task, 1, MPI_INT, window);
        MPI_Accumulate(&one, 1, MPI_INT, 0, TIMES + task, 1, MPI_INT, MPI_SUM, window);
        MPI_Win_flush_local(0, window); /* `steps` is used again */
    }
    MPI_Win_unlock_all(window);
    job_done();
    MPI_Win_free(&window);
    for (task = 0; rank == 0 && task < TASKS; task++)
        is_right &= queue.times[task] == 1 && queue.found[task] == work(task + 1);
    return job_end("queue", is_right);
}
