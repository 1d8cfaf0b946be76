/*
 * Active target: MPI_Win_fence, and post, start, complete, wait.  Who notifies
 * another writes into the other's mail; who waits reads its own.
 *
 * MPI's assertions are not used: all they could save is a store.
 */
#include "copy.h"
#include "osc_smartmap.h"

#include <stdlib.h>

/** All operations before are done, here and elsewhere. */
int window_barrier(smartmap_window_t *w)
{
    uint64_t turn = ++w->fences;
    int error = OMPI_SUCCESS;
    order_streamed();
    for (int r = 0; r < w->size; r++)
        atomic_store_explicit(&w->target[r].control->mail[w->rank].fences, turn,
                              memory_order_release);
    for (int r = 0; r < w->size && error == OMPI_SUCCESS; r++)
        error = window_wait(w, r, &w->own->mail[r].fences, turn);
    return error;
}

int smartmap_fence(int assert, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->locks > 0 || w->access > ACCESS_FENCE || w->posted.active)
        return MPI_ERR_RMA_SYNC;
    drive_progress();
    w->access = assert & MPI_MODE_NOSUCCEED ? ACCESS_NONE : ACCESS_FENCE;
    w->fence_used = false;
    return window_barrier(w);
}

static int find_members(const ompi_win_t *win, ompi_group_t *group, struct members *found)
{
    int count = ompi_group_size(group);
    int *theirs = calloc((size_t)count + 1, sizeof *theirs);
    found->rank = calloc((size_t)count + 1, sizeof *found->rank);
    for (int i = 0; theirs && i < count; i++)
        theirs[i] = i;
    int error = theirs && found->rank
                    ? ompi_group_translate_ranks(group, count, theirs, win->w_group, found->rank)
                    : MPI_ERR_NO_MEM;
    for (int i = 0; i < count && error == OMPI_SUCCESS; i++)
        error = found->rank[i] >= 0 ? OMPI_SUCCESS : MPI_ERR_GROUP;
    free(theirs);
    if (error != OMPI_SUCCESS)
        free(found->rank);
    found->count = error == OMPI_SUCCESS ? count : 0;
    found->active = error == OMPI_SUCCESS;
    return error;
}

static void forget_members(struct members *m)
{
    free(m->rank);
    *m = (struct members){ 0 };
}

int smartmap_post(ompi_group_t *group, int assert, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->posted.active)
        return MPI_ERR_RMA_SYNC;
    int error = find_members(win, group, &w->posted);
    order_streamed();
    for (int i = 0; i < w->posted.count; i++) {
        struct target *t = &w->target[w->posted.rank[i]];
        atomic_store_explicit(&t->control->mail[w->rank].posts, ++t->posts,
                              memory_order_release);
    }
    return error;
}

int smartmap_start(ompi_group_t *group, int assert, ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->locks > 0 || w->access > ACCESS_FENCE || w->fence_used)
        return MPI_ERR_RMA_SYNC;
    int error = find_members(win, group, &w->started);
    if (error != OMPI_SUCCESS)
        return error;
    w->access = ACCESS_STARTED;
    for (int i = 0; i < w->started.count && error == OMPI_SUCCESS; i++) {
        int r = w->started.rank[i];
        w->target[r].started = true;
        error = window_wait(w, r, &w->own->mail[r].posts, ++w->target[r].posts_seen);
    }
    return error;
}

int smartmap_complete(ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    if (w->access != ACCESS_STARTED)
        return MPI_ERR_RMA_SYNC;
    drive_progress();
    for (int i = 0; i < w->started.count; i++) {
        struct target *t = &w->target[w->started.rank[i]];
        t->started = false;
        atomic_store_explicit(&t->control->mail[w->rank].completes, ++t->completes,
                              memory_order_release);
    }
    forget_members(&w->started);
    w->access = ACCESS_NONE;
    return OMPI_SUCCESS;
}

static void end_exposure(smartmap_window_t *w)
{
    for (int i = 0; i < w->posted.count; i++)
        w->target[w->posted.rank[i]].completes_seen++;
    forget_members(&w->posted);
}

int smartmap_wait(ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    int error = OMPI_SUCCESS;
    if (!w->posted.active)
        return MPI_ERR_RMA_SYNC;
    for (int i = 0; i < w->posted.count && error == OMPI_SUCCESS; i++) {
        int r = w->posted.rank[i];
        error = window_wait(w, r, &w->own->mail[r].completes, w->target[r].completes_seen + 1);
    }
    end_exposure(w);
    return error;
}

int smartmap_test(ompi_win_t *win, int *flag)
{
    smartmap_window_t *w = window_of(win);
    *flag = 0;
    if (!w->posted.active)
        return MPI_ERR_RMA_SYNC;
    for (int i = 0; i < w->posted.count; i++) {
        int r = w->posted.rank[i];
        const _Atomic uint64_t *completes = &w->own->mail[r].completes;
        uint64_t seen = w->target[r].completes_seen;
        if (atomic_load_explicit(completes, memory_order_acquire) > seen)
            continue;
        opal_progress();
        bool lost = window_has_lost(w, r) && atomic_load(completes) <= seen;
        return lost ? window_lost(w, r) : OMPI_SUCCESS;
    }
    drive_progress();
    end_exposure(w);
    *flag = 1;
    return OMPI_SUCCESS;
}
