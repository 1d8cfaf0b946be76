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

#include "smartmap.h"

/* A pointer to the variable `x` of rank `r`. */
#define OF(r, x) ((__typeof__(&(x)))smartmap_remote((unsigned)(r), &(x)))

static int rank, ranks;

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

/* A rank's memory goes when it ends: rank 0, where all meet, ends last. Returns the program's status. */
static int job_end(const char *name, int is_right)
{
    job_meet();
    for (int other = 1; rank == 0 && other < ranks; other++)
        while (smartmap_alive(other))
            sched_yield();
    if (rank == 0 || !is_right)
        printf("%s: %s\n", name, is_right ? "right" : "WRONG");
    return !is_right;
}

#endif
