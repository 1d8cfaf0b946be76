/*
 * A work queue in rank 0's memory: each rank takes the next task by an atomic addition there, and puts what it finds where rank 0
 * looks for it. Rank 0 works as the others do, and no rank hands out tasks.
 */
#include "job.h"

enum { TASKS = 20000 };

/* Rank 0's are used. */
static _Atomic int next;
static int found[TASKS];
static _Atomic int times[TASKS];

/* Steps of 3n + 1 from n to 1: some tasks take much longer than others. */
static int work(long n)
{
    int steps = 0;
    for (; n != 1; steps++)
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    return steps;
}

int main(void)
{
    job_begin();
    int task, is_right = 1;
    while ((task = atomic_fetch_add(OF(0, next), 1)) < TASKS) {
        (*OF(0, found))[task] = work(task + 1);
        (*OF(0, times))[task]++;
    }
    job_done();
    for (task = 0; rank == 0 && task < TASKS; task++)
        is_right &= times[task] == 1 && found[task] == work(task + 1);
    return job_end("queue", is_right);
}
