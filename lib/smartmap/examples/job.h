/*
 * What the examples need besides smartmap.h: ranks that begin together, meet, and end.
 *
 * All ranks run the same program, so the address of a static variable is good in each of them.
 */
#ifndef EXAMPLES_JOB_H
#define EXAMPLES_JOB_H

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "smartmap.h"

/* A pointer to the variable `x` of rank `r`. */
#define OF(r, x) ((__typeof__(&(x)))smartmap_remote((unsigned)(r), &(x)))

static int rank, ranks;
static double job_us;

static double job_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Rank 0's is used: who has come to a meeting, and how many meetings there were. */
static struct {
    _Atomic int here;
    _Atomic unsigned meetings;
} place;

/* Waits until all ranks run. */
static void job_begin(void)
{
    rank = smartmap_rank();
    ranks = smartmap_size();
    if (rank < 0 || smartmap_join(10000) != 0) {
        fprintf(stderr, "this is one of several ranks of a node: yod -n 4 PROGRAM\n");
        exit(1);
    }
    job_us = job_clock();
}

/* Waits until all ranks have come here. What each stored before, all others see afterwards. */
static void job_meet(void)
{
    __typeof__(place) *at = OF(0, place);
    unsigned before = at->meetings;
    if (atomic_fetch_add(&at->here, 1) + 1 == ranks) {
        at->here = 0;
        at->meetings++;
    }
    while (at->meetings == before)
        sched_yield();
}

/* All have done their work: what follows only checks it. */
static void job_done(void)
{
    job_meet();
    job_us = job_clock() - job_us;
}

/* A rank's memory goes when it ends: rank 0, where all meet, ends last. Returns the program's status. */
static int job_end(const char *name, int is_right)
{
    job_meet();
    for (int other = 1; rank == 0 && other < ranks; other++)
        while (smartmap_alive(other))
            sched_yield();
    if (rank == 0 || !is_right)
        printf("%s: %s, %.0f us\n", name, is_right ? "right" : "WRONG", job_us);
    return !is_right;
}

#endif
