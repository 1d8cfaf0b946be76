/*
 * Passive target: locks, and what completes operations under them.
 *
 * A lock is had in the order in which its tickets are drawn; readers that follow
 * each other have it together.  Each lock is the target's alone, also in
 * MPI_Win_lock_all, which does not hold some while it waits for others: a rank
 * that locks one target after another would wait for it, and it for that rank.
 */
#include "copy.h"
#include "osc_smartmap.h"

static uint64_t turns_of(uint32_t shared, uint32_t exclusive)
{
    return (uint64_t)exclusive << 32 | shared;
}

static uint32_t shared_turn(uint64_t turns) { return (uint32_t)turns; }

static uint32_t exclusive_turn(uint64_t turns) { return (uint32_t)(turns >> 32); }

static bool is_turn_of(const struct control *c, uint32_t ticket, enum lock kind)
{
    uint64_t turns = atomic_load_explicit(&c->turns, memory_order_acquire);
    return ticket == (kind == LOCK_SHARED ? shared_turn(turns) : exclusive_turn(turns));
}

/** The one whose turn it is lets the next reader in. */
static void pass_on(struct control *c)
{
    uint64_t turns = atomic_load(&c->turns);
    while (!atomic_compare_exchange_weak(
        &c->turns, &turns, turns_of(shared_turn(turns) + 1, exclusive_turn(turns))))
        ;
}

static void want_lock(const smartmap_window_t *w, int target, bool wanted)
{
    atomic_store_explicit(&w->target[target].control->mail[w->rank].wants_lock, wanted,
                          memory_order_release);
}

/** A rank that has died and has or wants the lock of `target`, or -1. */
static int find_lost_holder(const smartmap_window_t *w, int target)
{
    for (int r = 0; r < w->size; r++)
        if (atomic_load(&w->target[target].control->mail[r].wants_lock) &&
            window_has_lost(w, r))
            return r;
    return -1;
}

static SELDOM int await_turn(const smartmap_window_t *w, int target, uint32_t ticket, enum lock kind)
{
    const struct control *c = w->target[target].control;
    struct wait waited = wait_begin(w->crowded);
    while (!is_turn_of(c, ticket, kind)) {
        int lost = wait_more(&waited) ? find_lost_holder(w, target) : -1;
        if (lost >= 0 && !is_turn_of(c, ticket, kind))
            return window_lost(w, lost);
    }
    return OMPI_SUCCESS;
}

static int acquire(smartmap_window_t *w, int target, enum lock kind)
{
    struct control *c = w->target[target].control;
    want_lock(w, target, true);
    uint32_t ticket = atomic_fetch_add(&c->tickets, 1);
    int error = OMPI_SUCCESS;
    if (OPAL_UNLIKELY(!is_turn_of(c, ticket, kind)))
        error = await_turn(w, target, ticket, kind);
    if (error == OMPI_SUCCESS && kind == LOCK_SHARED)
        pass_on(c);
    return error;
}

/** Have a shared lock if that takes no waiting. */
static bool try_shared(smartmap_window_t *w, int target)
{
    struct control *c = w->target[target].control;
    uint32_t ticket = shared_turn(atomic_load(&c->turns));
    want_lock(w, target, true);
    if (atomic_compare_exchange_strong(&c->tickets, &ticket, ticket + 1)) {
        pass_on(c);
        return true;
    }
    want_lock(w, target, false);
    return false;
}

/**
 * What was stored comes before what the next holder of the lock loads.  What we load next may come before: of
 * operations that need not be so, locks, flushes, MPI_Win_sync and accumulates begin with a full fence.
 */
static void release(smartmap_window_t *w, int target, enum lock kind)
{
    struct control *c = w->target[target].control;
    if (kind == LOCK_SHARED) {
        atomic_fetch_add(&c->turns, turns_of(0, 1));
    } else { /* no other rank changes them */
        uint32_t next = exclusive_turn(atomic_load_explicit(&c->turns, memory_order_relaxed)) + 1;
        order_streamed();
        atomic_store_explicit(&c->turns, turns_of(next, next), memory_order_release);
    }
    want_lock(w, target, false);
}

static int begin(smartmap_window_t *w, struct target *t, enum lock kind)
{
    enter(w);
    bool allowed = w->access <= ACCESS_FENCE && !w->fence_used && t->lock == LOCK_NONE;
    if (allowed) {
        w->access = ACCESS_NONE;
        t->lock = kind;
        w->locks++;
    }
    leave(w);
    return allowed ? OMPI_SUCCESS : MPI_ERR_RMA_SYNC;
}

static void end(smartmap_window_t *w, struct target *t)
{
    enter(w);
    t->lock = LOCK_NONE;
    w->locks--;
    leave(w);
}

/** In place of acquire, for MPI_MODE_NOCHECK. */
static int start_unchecked(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return OMPI_SUCCESS;
}

SHORT_CALL
int smartmap_lock(int type, int target, int assert, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    struct target *t = &w->target[target];
    enum lock kind = type == MPI_LOCK_EXCLUSIVE ? LOCK_EXCLUSIVE : LOCK_SHARED;
    int error = begin(w, t, kind);
    if (error != OMPI_SUCCESS)
        return error;
    t->unchecked = assert & MPI_MODE_NOCHECK;
    error = t->unchecked ? start_unchecked() : acquire(w, target, kind);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        end(w, t);
    return error;
}

/**
 * Operations at these targets are done.  Now and then see whether they live: who
 * polls what another rank is to write calls MPI_Win_flush in a loop.
 */
static int finish(const smartmap_window_t *w, int first, int last)
{
    if (OPAL_LIKELY(!drive_progress()))
        return OMPI_SUCCESS;
    for (int r = first; r <= last; r++)
        if (window_has_lost(w, r))
            return window_lost(w, r);
    return OMPI_SUCCESS;
}

SHORT_CALL
int smartmap_unlock(int target, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    struct target *t = &w->target[target];
    if (t->lock == LOCK_NONE)
        return MPI_ERR_RMA_SYNC;
    if (t->unchecked)
        atomic_thread_fence(memory_order_seq_cst);
    else
        release(w, target, t->lock);
    end(w, t);
    return finish(w, target, target);
}

/** All targets' locks: with none of them while waiting for one. */
static int acquire_all(smartmap_window_t *w)
{
    for (int first = w->rank;;) {
        int error = acquire(w, first, LOCK_SHARED), got = 1;
        if (error != OMPI_SUCCESS)
            return error;
        while (got < w->size && try_shared(w, (first + got) % w->size))
            got++;
        if (got == w->size)
            return OMPI_SUCCESS;
        int busy = (first + got) % w->size;
        while (got-- > 0)
            release(w, (first + got) % w->size, LOCK_SHARED);
        first = busy;
    }
}

SHORT_CALL
int smartmap_lock_all(int assert, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->locks > 0 || w->access > ACCESS_FENCE || w->fence_used)
        return MPI_ERR_RMA_SYNC;
    w->all_unchecked = assert & MPI_MODE_NOCHECK;
    int error = w->all_unchecked ? start_unchecked() : acquire_all(w);
    w->access = error == OMPI_SUCCESS ? ACCESS_LOCK_ALL : ACCESS_NONE;
    return error;
}

SHORT_CALL
int smartmap_unlock_all(ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->access != ACCESS_LOCK_ALL)
        return MPI_ERR_RMA_SYNC;
    for (int r = 0; r < w->size && !w->all_unchecked; r++)
        release(w, r, LOCK_SHARED);
    atomic_thread_fence(memory_order_seq_cst);
    w->access = ACCESS_NONE;
    return finish(w, 0, w->size - 1);
}

int smartmap_sync(ompi_win_t *win)
{
    drive_progress();
    atomic_thread_fence(memory_order_seq_cst);
    return OMPI_SUCCESS;
}

SHORT_CALL
int smartmap_flush(int target, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->access != ACCESS_LOCK_ALL && w->target[target].lock == LOCK_NONE)
        return MPI_ERR_RMA_SYNC;
    atomic_thread_fence(memory_order_seq_cst);
    return finish(w, target, target);
}

int smartmap_flush_all(ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->access != ACCESS_LOCK_ALL && w->locks == 0)
        return MPI_ERR_RMA_SYNC;
    atomic_thread_fence(memory_order_seq_cst);
    return finish(w, 0, w->size - 1);
}
