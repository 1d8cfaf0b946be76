/*
 * Waiting for what peers write.
 *
 * A wait polls a word.  After a short while it also drives the MPI's progress,
 * because the peer may first need something from us (a rendezvous of an earlier
 * message); later it yields the CPU; and now and then it is time to see whether
 * the peer has died, so that MPI's error handler ends the job instead of a hang.
 */
#ifndef SMARTMAP_COMMON_WAIT_H
#define SMARTMAP_COMMON_WAIT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "progress.h" /* of the MPI that this is compiled for */

enum {
    SPINS = 500,          /* about 20 us of PAUSE before progress is driven */
    SPINS_CROWDED = 4,    /* ranks share CPUs: the peer needs ours */
    ROUNDS_TO_YIELD = 50, /* rounds of progress before every round yields */
    ROUNDS_TO_CHECK = 1000,
    CALLS_TO_PROGRESS = 128, /* progress costs 300 ns; each call, 2 */
};

/** How long a wait has taken. */
struct wait {
    bool crowded;
    int spins;
    unsigned rounds;
};

static inline struct wait wait_begin(bool crowded)
{
    return (struct wait){ crowded, crowded ? SPINS_CROWDED : SPINS, 0 };
}

/** Between two polls; true: see whether the peer lives. */
static inline bool wait_more(struct wait *w)
{
    if (w->spins-- > 0) {
        __builtin_ia32_pause();
        return false;
    }
    make_progress();
    w->spins = w->crowded ? SPINS_CROWDED : SPINS / 10;
    if (w->crowded || w->rounds > ROUNDS_TO_YIELD)
        sched_yield();
    return w->rounds++ % ROUNDS_TO_CHECK == ROUNDS_TO_CHECK - 1;
}

extern _Atomic unsigned smartmap_calls;

/**
 * In each call that may not wait: in a loop of them a message would starve that
 * needs a word of its sender's library.  True now and then, when it did.
 */
static inline bool drive_progress(void)
{
    unsigned count = atomic_load_explicit(&smartmap_calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&smartmap_calls, count, memory_order_relaxed);
    if (__builtin_expect(count % CALLS_TO_PROGRESS != 0, 1))
        return false;
    make_progress();
    return true;
}

#endif
