/*
 * Accumulates, atomic for each element and with each other.
 *
 * One element of up to 8 bytes is changed by one instruction (single.c); anything
 * else by one rank at a time, the target's folder (fold.c).  The two must not
 * meet: a rank says in `single` where it is about to use its instruction, and
 * then sees whether there is a folder; a folder says that it is one, and then
 * sees who is still at an instruction here.  So ranks that use a counter
 * together move its cache line only, and none waits for one that has no CPU.
 *
 * Who has the target's exclusive lock is alone there.  Where threads are in use
 * those of a process take turns.
 */
#include "osc_smartmap.h"

#include <string.h>

static bool is_alone(const smartmap_window_t *w, int target)
{
    return w->target[target].lock == LOCK_EXCLUSIVE;
}

/** Wait until nobody folds at `target`. */
static int await_folder(const smartmap_window_t *w, int target)
{
    const _Atomic uint32_t *folder = &w->target[target].control->folder;
    struct wait waited = wait_begin(w->crowded);
    for (uint32_t who; (who = atomic_load(folder)) != 0;)
        if (wait_more(&waited) && window_has_lost(w, (int)who - 1) && atomic_load(folder) == who)
            return window_lost(w, (int)who - 1);
    return OMPI_SUCCESS;
}

static int begin_single(smartmap_window_t *w, int target)
{
    enter(w);
    while (!is_alone(w, target)) {
        atomic_store(&w->own->single, (uint32_t)target + 1);
        if (OPAL_LIKELY(atomic_load(&w->target[target].control->folder) == 0))
            break;
        atomic_store(&w->own->single, 0);
        int error = await_folder(w, target);
        if (error != OMPI_SUCCESS) {
            leave(w);
            return error;
        }
    }
    return OMPI_SUCCESS;
}

static void end_single(smartmap_window_t *w)
{
    atomic_store_explicit(&w->own->single, 0, memory_order_release);
    leave(w);
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

static int begin_fold(smartmap_window_t *w, int target)
{
    _Atomic uint32_t *folder = &w->target[target].control->folder;
    enter(w);
    if (is_alone(w, target))
        return OMPI_SUCCESS;
    for (uint32_t none = 0; !atomic_compare_exchange_strong(folder, &none, (uint32_t)w->rank + 1);
         none = 0) {
        int error = await_folder(w, target);
        if (error != OMPI_SUCCESS) {
            leave(w);
            return error;
        }
    }
    for (int r = 0; r < w->size; r++)
        if (r != w->rank)
            await_single(w, r, target);
    return OMPI_SUCCESS;
}

static void end_fold(smartmap_window_t *w, int target)
{
    if (!is_alone(w, target))
        atomic_store_explicit(&w->target[target].control->folder, 0, memory_order_release);
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
    if (is_single(target, origin, result, op)) {
        error = begin_single(w, rank);
        if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
            return error;
        single_fetch_and_op(origin->address, result ? result->address : NULL, target->address,
                            target->type, op);
        end_single(w);
        return OMPI_SUCCESS;
    }
    error = begin_fold(w, rank);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    error = change(target, origin, result, op);
    end_fold(w, rank);
    return error;
}

int smartmap_accumulate(const void *origin, int origin_count, ompi_datatype_t *origin_type,
                        int rank, ptrdiff_t displacement, int count, ompi_datatype_t *type,
                        ompi_op_t *op, ompi_win_t *win)
{
    struct buffer target = { NULL, count, type };
    struct buffer from = { (char *)origin, origin_count, origin_type };
    return accumulate(window_of(win), rank, displacement, &target, &from, NULL, op);
}

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
    error = single ? begin_single(w, rank) : begin_fold(w, rank);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    if (single) {
        single_compare_and_swap(origin, compare, result, target.address, type->super.size);
        end_single(w);
        return OMPI_SUCCESS;
    }
    error = compare_and_swap(&target, &from, compare, &before);
    end_fold(w, rank);
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
