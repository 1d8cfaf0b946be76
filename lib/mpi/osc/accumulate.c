/*
 * Accumulates, atomic for each element and with each other.
 *
 * One element of up to 8 bytes is changed by one instruction (single.c); anything
 * else by one rank at a time, the target's folder (fold.c).  The two must not
 * meet.  Until a rank folds at a target, each announces in `single` where it is
 * about to use its instruction, and then sees that no rank has folded there; the
 * first that folds there announces that, and then sees which are still at an instruction.  So
 * ranks that use a counter together move its cache line only, and none waits for
 * one that has no CPU.  Once a rank has folded, all at that target take turns.
 *
 * Who has the target's exclusive lock is alone there.  Where threads are in use
 * those of a process take turns.
 */
#include "osc_smartmap.h"

#include <string.h>

enum { FOLDED = 1u << 31 }; /* in `folder`, for ever: a rank has folded here */

static bool is_alone(const smartmap_window_t *w, int target)
{
    return w->target[target].lock == LOCK_EXCLUSIVE;
}

/** Wait until no rank folds at `target`. */
static SELDOM int await_folder(const smartmap_window_t *w, int target)
{
    const _Atomic uint32_t *folder = &w->target[target].control->folder;
    struct wait waited = wait_begin(w->crowded);
    for (uint32_t who; (who = atomic_load(folder) & ~FOLDED) != 0;)
        if (wait_more(&waited) && window_has_lost(w, (int)who - 1) &&
            (atomic_load(folder) & ~FOLDED) == who)
            return window_lost(w, (int)who - 1);
    return OMPI_SUCCESS;
}

/** One that died at its instruction is no longer there. */
static void await_single(const smartmap_window_t *w, int rank, int target)
{
    const _Atomic uint32_t *single = &w->target[rank].control->single;
    struct wait waited = wait_begin(w->crowded);
    while (atomic_load(single) == (uint32_t)target + 1)
        if (wait_more(&waited) && window_has_lost(w, rank))
            return;
}

/** The first folder: from here on no rank begins an instruction there, and those that began end. */
static SELDOM void await_singles(const smartmap_window_t *w, int target)
{
    for (int r = 0; r < w->size; r++)
        if (r != w->rank)
            await_single(w, r, target);
}

/** In place of `before`: FOLDED, or 0 for the first. */
static bool try_to_fold(smartmap_window_t *w, int target, uint32_t before)
{
    return atomic_compare_exchange_strong(&w->target[target].control->folder, &before,
                                          FOLDED | ((uint32_t)w->rank + 1));
}

static SELDOM int wait_to_fold(smartmap_window_t *w, int target)
{
    int error = OMPI_SUCCESS;
    while (error == OMPI_SUCCESS && !try_to_fold(w, target, FOLDED)) {
        if (try_to_fold(w, target, 0)) {
            await_singles(w, target);
            break;
        }
        error = await_folder(w, target);
    }
    return error;
}

static int become_folder(smartmap_window_t *w, int target)
{
    return OPAL_LIKELY(try_to_fold(w, target, FOLDED)) ? OMPI_SUCCESS : wait_to_fold(w, target);
}

/** For one instruction, or else for a fold. */
static int begin(smartmap_window_t *w, int target, bool single)
{
    enter(w);
    if (is_alone(w, target))
        return OMPI_SUCCESS;
    if (single) {
        atomic_store(&w->own->single, (uint32_t)target + 1);
        if (OPAL_LIKELY(atomic_load(&w->target[target].control->folder) == 0))
            return OMPI_SUCCESS;
        atomic_store_explicit(&w->own->single, 0, memory_order_relaxed);
    }
    int error = become_folder(w, target);
    if (error != OMPI_SUCCESS)
        leave(w);
    return error;
}

static void end(smartmap_window_t *w, int target)
{
    if (atomic_load_explicit(&w->own->single, memory_order_relaxed) != 0)
        atomic_store_explicit(&w->own->single, 0, memory_order_release);
    else if (!is_alone(w, target))
        atomic_store_explicit(&w->target[target].control->folder, FOLDED, memory_order_release);
    leave(w);
}

/** `result` is NULL where nothing is fetched. */
static int change(const struct buffer *target, const struct buffer *origin,
                  const struct buffer *result, ompi_op_t *op)
{
    int error = result ? buffer_move(result, target) : OMPI_SUCCESS;
    if (error != OMPI_SUCCESS || op == &ompi_mpi_op_no_op.op)
        return error;
    return op == &ompi_mpi_op_replace.op ? buffer_move(target, origin)
                                         : buffer_fold(target, origin, op);
}

static bool is_single(const struct buffer *target, const struct buffer *origin,
                      const struct buffer *result, const ompi_op_t *op)
{
    if (target->count != 1 || !single_suits(target->type, target->address) ||
        (result && (result->count != 1 || result->type != target->type)))
        return false;
    return op == &ompi_mpi_op_no_op.op || (origin->count == 1 && origin->type == target->type);
}

/** MPI_Get_accumulate, or with no result MPI_Accumulate. */
static int accumulate(smartmap_window_t *w, int rank, ptrdiff_t displacement,
                      struct buffer *target, const struct buffer *origin,
                      const struct buffer *result, ompi_op_t *op)
{
    int error = window_place(w, rank, displacement, target);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    bool single = is_single(target, origin, result, op);
    error = begin(w, rank, single);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    if (single)
        single_fetch_and_op(origin->address, result ? result->address : NULL, target->address,
                            target->type, op);
    else
        error = change(target, origin, result, op);
    end(w, rank);
    return error;
}

SHORT_CALL
int smartmap_accumulate(const void *origin, int origin_count, ompi_datatype_t *origin_type,
                        int rank, ptrdiff_t displacement, int count, ompi_datatype_t *type,
                        ompi_op_t *op, ompi_win_t *win)
{
    struct buffer target = { NULL, count, type };
    struct buffer from = { (char *)origin, origin_count, origin_type };
    return accumulate(window_of(win), rank, displacement, &target, &from, NULL, op);
}

SHORT_CALL
int smartmap_get_accumulate(const void *origin, int origin_count, ompi_datatype_t *origin_type,
                            void *result, int result_count, ompi_datatype_t *result_type,
                            int rank, ptrdiff_t displacement, int count, ompi_datatype_t *type,
                            ompi_op_t *op, ompi_win_t *win)
{
    struct buffer target = { NULL, count, type };
    struct buffer from = { (char *)origin, origin_count, origin_type };
    struct buffer before = { result, result_count, result_type };
    return accumulate(window_of(win), rank, displacement, &target, &from, &before, op);
}

SHORT_CALL
int smartmap_fetch_and_op(const void *origin, void *result, ompi_datatype_t *type, int rank,
                          ptrdiff_t displacement, ompi_op_t *op, ompi_win_t *win)
{
    struct buffer target = { NULL, 1, type }, from = { (char *)origin, 1, type };
    struct buffer before = { result, 1, type };
    return accumulate(window_of(win), rank, displacement, &target, &from, &before, op);
}

static int compare_and_swap(const struct buffer *target, const struct buffer *origin,
                            const void *compare, const struct buffer *result)
{
    size_t bytes;
    ompi_datatype_type_size(target->type, &bytes);
    int error = buffer_move(result, target);
    if (error != OMPI_SUCCESS || memcmp(result->address, compare, bytes) != 0)
        return error;
    return buffer_move(target, origin);
}

SHORT_CALL
int smartmap_compare_and_swap(const void *origin, const void *compare, void *result,
                              ompi_datatype_t *type, int rank, ptrdiff_t displacement,
                              ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    struct buffer target = { NULL, 1, type }, from = { (char *)origin, 1, type };
    struct buffer before = { result, 1, type };
    int error = window_place(w, rank, displacement, &target);
    if (error != OMPI_SUCCESS)
        return error;
    bool single = single_suits(type, target.address);
    error = begin(w, rank, single);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    if (single)
        single_compare_and_swap(origin, compare, result, target.address, type->super.size);
    else
        error = compare_and_swap(&target, &from, compare, &before);
    end(w, rank);
    return error;
}

int smartmap_raccumulate(const void *origin, int origin_count, ompi_datatype_t *origin_type,
                         int rank, ptrdiff_t displacement, int count, ompi_datatype_t *type,
                         ompi_op_t *op, ompi_win_t *win, ompi_request_t **request)
{
    drive_progress();
    *request = &ompi_request_empty;
    return smartmap_accumulate(origin, origin_count, origin_type, rank, displacement, count,
                               type, op, win);
}

int smartmap_rget_accumulate(const void *origin, int origin_count, ompi_datatype_t *origin_type,
                             void *result, int result_count, ompi_datatype_t *result_type,
                             int rank, ptrdiff_t displacement, int count, ompi_datatype_t *type,
                             ompi_op_t *op, ompi_win_t *win, ompi_request_t **request)
{
    drive_progress();
    *request = &ompi_request_empty;
    return smartmap_get_accumulate(origin, origin_count, origin_type, result, result_count,
                                   result_type, rank, displacement, count, type, op, win);
}
