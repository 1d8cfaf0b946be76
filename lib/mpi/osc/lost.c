/*
 * Waiting for another rank of a window, which may have died: then MPI's error
 * handler gets to know it instead of a hang.
 */
#include "osc_smartmap.h"

#include "opal/util/output.h"

bool window_has_lost(const smartmap_window_t *w, int rank)
{
    return rank != w->rank && !smartmap_provider_alive(w->target[rank].node_rank);
}

/** Say it, once per call that fails. */
int window_lost(const smartmap_window_t *w, int rank)
{
    opal_output(0, "osc/smartmap: local rank %d shares a window with local rank %d, which has died",
                smartmap_rank(), w->target[rank].node_rank);
    return MPI_ERR_OTHER;
}

/** Wait until what rank `rank` counts in our mail reaches `value`. */
int window_wait(const smartmap_window_t *w, int rank, const _Atomic uint64_t *word,
                uint64_t value)
{
    struct wait waited = wait_begin(w->crowded);
    while (atomic_load_explicit(word, memory_order_acquire) < value)
        if (wait_more(&waited) && window_has_lost(w, rank) &&
            atomic_load_explicit(word, memory_order_acquire) < value)
            return window_lost(w, rank);
    return OMPI_SUCCESS;
}
