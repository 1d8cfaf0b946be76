/*
 * osc/smartmap: MPI's one-sided communication by loads, stores and atomics on
 * peers' memory, for Open MPI 4.1 and 5.0.
 *
 * Every operation is done when its call returns.  What remains is to wait for
 * the right moment, by words in the control block that each rank has for each
 * window in its arena:
 *
 *   tickets, turns   the lock of the owner's part of the window, first come,
 *                    first served
 *   folder, single   keep accumulates of several elements and those of one apart
 *                    (accumulate.c)
 *   mail[r]          a line that only rank r writes: how many fences, posts and
 *                    completes it has notified the owner of, and whether it has or wants
 *                    the owner's lock
 *
 * A rank waits on its own mail only.  So it may free its block when all others
 * have notified it of their last fence, in MPI_Win_free.
 */
#ifndef OSC_SMARTMAP_H
#define OSC_SMARTMAP_H

#include "ompi_config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#include "card.h"
#include "place.h"
#include "smartmap.h"
#include "wait.h"

enum { PROTOCOL = 2 }; /* processes must agree on it before they share memory */

struct mail {
    _Alignas(LINE_BYTES) _Atomic uint64_t fences;
    _Atomic uint64_t posts, completes;
    _Atomic uint32_t wants_lock;
};

struct control {
    _Alignas(LINE_BYTES) _Atomic uint32_t tickets; /* drawn for the lock */
    _Atomic uint64_t turns; /* whose turn it is: shared (low half) and exclusive (high) */
    _Alignas(LINE_BYTES) _Atomic uint32_t folder; /* who folds here: its rank + 1; 0: no rank has */
    _Alignas(LINE_BYTES) _Atomic uint32_t single; /* the owner accumulates one element at
                                                     this rank - 1 */
    struct mail mail[];
};

enum lock { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };

/** A rank of the window, as seen here. */
struct target {
    char *base; /* its part of the window */
    size_t bytes;
    int unit;   /* of displacements, in bytes */
    int node_rank;
    struct control *control;
    enum lock lock; /* that we have there */
    bool unchecked; /* by MPI_MODE_NOCHECK: without a ticket */
    bool started;   /* it is in the group of MPI_Win_start */
    uint64_t posts, completes; /* that we have notified it of */
    uint64_t posts_seen, completes_seen; /* of its, those we have waited for */
};

enum access { ACCESS_NONE, ACCESS_FENCE, ACCESS_STARTED, ACCESS_LOCK_ALL };

/** Ranks of a group of MPI_Win_start or MPI_Win_post. */
struct members {
    bool active;
    int count;
    int *rank;
};

typedef struct smartmap_window {
    ompi_osc_base_module_t super;
    int rank, size;
    bool crowded;      /* waits yield at once */
    void *memory;      /* of MPI_Win_allocate, or NULL */
    void *page;        /* where `own` was allocated */
    struct control *own;
    enum access access;
    bool fence_used;   /* the epoch since the last fence has operations */
    bool all_unchecked;
    int locks;         /* targets with a lock of ours */
    uint64_t fences;
    struct members started, posted;
    pthread_mutex_t guard; /* of all this, and of accumulates, where threads are in use */
    struct target target[];
} smartmap_window_t;

struct smartmap_osc_component {
    ompi_osc_base_component_t super;
    bool enable;
    int verbose;
};
OMPI_DECLSPEC extern struct smartmap_osc_component mca_osc_smartmap_component;

/* A call that takes as long as some function calls is one function; what it seldom needs stays apart. */
#define SHORT_CALL __attribute__((flatten))
#define SELDOM __attribute__((noinline, cold))

static inline smartmap_window_t *window_of(const ompi_win_t *win)
{
    return (smartmap_window_t *)win->w_osc_module;
}

static inline void enter(smartmap_window_t *w)
{
    if (OPAL_UNLIKELY(opal_using_threads()))
        pthread_mutex_lock(&w->guard);
}

static inline void leave(smartmap_window_t *w)
{
    if (OPAL_UNLIKELY(opal_using_threads()))
        pthread_mutex_unlock(&w->guard);
}

/* window.c */
int smartmap_window_select(ompi_win_t *, void **, size_t, int, ompi_communicator_t *,
                           opal_info_t *, int, int *);
int smartmap_window_free(ompi_win_t *win);

/* lost.c */
bool window_has_lost(const smartmap_window_t *w, int rank);
int window_lost(const smartmap_window_t *w, int rank);
int window_wait(const smartmap_window_t *w, int rank, const _Atomic uint64_t *word,
                uint64_t value);

/* active.c */
int window_barrier(smartmap_window_t *w);
int smartmap_fence(int, ompi_win_t *);
int smartmap_start(ompi_group_t *, int, ompi_win_t *);
int smartmap_complete(ompi_win_t *);
int smartmap_post(ompi_group_t *, int, ompi_win_t *);
int smartmap_wait(ompi_win_t *);
int smartmap_test(ompi_win_t *, int *);

/* passive.c */
int smartmap_lock(int, int, int, ompi_win_t *);
int smartmap_unlock(int, ompi_win_t *);
int smartmap_lock_all(int, ompi_win_t *);
int smartmap_unlock_all(ompi_win_t *);
int smartmap_sync(ompi_win_t *);
int smartmap_flush(int, ompi_win_t *);
int smartmap_flush_all(ompi_win_t *);

/* move.c */
/** A buffer of MPI's: here, or in a target's part of a window. */
struct buffer {
    char *address;
    int count;
    ompi_datatype_t *type;
};
int window_place(smartmap_window_t *w, int target, ptrdiff_t displacement, struct buffer *place);
int buffer_move(const struct buffer *to, const struct buffer *from);
int smartmap_put(const void *, int, ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                 ompi_win_t *);
int smartmap_get(void *, int, ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                 ompi_win_t *);
int smartmap_rput(const void *, int, ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                  ompi_win_t *, ompi_request_t **);
int smartmap_rget(void *, int, ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                  ompi_win_t *, ompi_request_t **);

/* single.c */
bool single_suits(const ompi_datatype_t *type, const void *address);
void single_fetch_and_op(const void *origin, void *result, void *target, ompi_datatype_t *type,
                         ompi_op_t *op);
void single_compare_and_swap(const void *origin, const void *compare, void *result, void *target,
                             size_t bytes);

/* fold.c */
int buffer_fold(const struct buffer *to, const struct buffer *from, ompi_op_t *op);

/* accumulate.c */
int smartmap_accumulate(const void *, int, ompi_datatype_t *, int, ptrdiff_t, int,
                        ompi_datatype_t *, ompi_op_t *, ompi_win_t *);
int smartmap_get_accumulate(const void *, int, ompi_datatype_t *, void *, int,
                            ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                            ompi_op_t *, ompi_win_t *);
int smartmap_compare_and_swap(const void *, const void *, void *, ompi_datatype_t *, int,
                              ptrdiff_t, ompi_win_t *);
int smartmap_fetch_and_op(const void *, void *, ompi_datatype_t *, int, ptrdiff_t, ompi_op_t *,
                          ompi_win_t *);
int smartmap_raccumulate(const void *, int, ompi_datatype_t *, int, ptrdiff_t, int,
                         ompi_datatype_t *, ompi_op_t *, ompi_win_t *, ompi_request_t **);
int smartmap_rget_accumulate(const void *, int, ompi_datatype_t *, void *, int,
                             ompi_datatype_t *, int, ptrdiff_t, int, ompi_datatype_t *,
                             ompi_op_t *, ompi_win_t *, ompi_request_t **);

#endif
