/*
 * Where an operation goes, MPI_Put and MPI_Get.
 */
#include "osc_smartmap.h"

#include "copy.h"
#include "strided.h"

static bool may_access(smartmap_window_t *w, int target)
{
    switch (w->access) {
    case ACCESS_FENCE:
        w->fence_used = true;
        return true;
    case ACCESS_STARTED:
        return w->target[target].started;
    case ACCESS_LOCK_ALL:
        return true;
    default:
        return w->target[target].lock != LOCK_NONE;
    }
}

/**
 * Where `displacement` of a target is, for the elements that `place` has.  It
 * must lie within the target's part of the window, as for Open MPI's osc/rdma.
 */
int window_place(smartmap_window_t *w, int target, ptrdiff_t displacement, struct buffer *place)
{
    const struct target *t = &w->target[target];
    ptrdiff_t gap, offset, first;
    size_t span = (size_t)opal_datatype_span(&place->type->super, (size_t)place->count, &gap);
    if (OPAL_UNLIKELY(!may_access(w, target)))
        return MPI_ERR_RMA_SYNC;
    if (span > 0 && (__builtin_mul_overflow(displacement, (ptrdiff_t)t->unit, &offset) ||
                     __builtin_add_overflow(offset, gap, &first) || first < 0 ||
                     span > t->bytes || (size_t)first > t->bytes - span))
        return MPI_ERR_RMA_RANGE;
    place->address = t->base + (span > 0 ? offset : 0);
    return OMPI_SUCCESS;
}

/** The data of a buffer if it lies in one piece, or NULL. */
static char *in_one_piece(const struct buffer *b)
{
    ptrdiff_t lb, extent;
    if (!ompi_datatype_is_contiguous_memory_layout(b->type, b->count))
        return NULL;
    ompi_datatype_get_true_extent(b->type, &lb, &extent);
    return b->address + lb;
}

/** Too much for `to` is MPI_ERR_TRUNCATE, and what it takes is moved. */
int buffer_move(const struct buffer *to, const struct buffer *from)
{
    size_t give, take;
    ompi_datatype_type_size(from->type, &give);
    ompi_datatype_type_size(to->type, &take);
    give *= (size_t)from->count;
    take *= (size_t)to->count;
    char *target = in_one_piece(to), *source = in_one_piece(from);
    if (give == 0)
        return OMPI_SUCCESS;
    size_t bytes = give < take ? give : take;
    if (target && source)
        copy_in_pieces(target, source, bytes);
    else if (!strided_move(&(struct layout){ to->address, (size_t)to->count, to->type, target },
                           &(struct layout){ from->address, (size_t)from->count, from->type, source }, bytes))
        return ompi_datatype_sndrcv(from->address, from->count, from->type, to->address,
                                    to->count, to->type);
    return give <= take ? OMPI_SUCCESS : MPI_ERR_TRUNCATE;
}

SHORT_CALL
int smartmap_put(const void *origin, int origin_count, ompi_datatype_t *origin_type, int target,
                 ptrdiff_t displacement, int count, ompi_datatype_t *type, ompi_win_t *win)
{
    struct buffer to = { .count = count, .type = type };
    int error = window_place(window_of(win), target, displacement, &to);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    return buffer_move(&to, &(struct buffer){ (char *)origin, origin_count, origin_type });
}

SHORT_CALL
int smartmap_get(void *origin, int origin_count, ompi_datatype_t *origin_type, int target,
                 ptrdiff_t displacement, int count, ompi_datatype_t *type, ompi_win_t *win)
{
    struct buffer from = { .count = count, .type = type };
    int error = window_place(window_of(win), target, displacement, &from);
    if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
        return error;
    return buffer_move(&(struct buffer){ origin, origin_count, origin_type }, &from);
}

/** The request of an operation that is done. */
int smartmap_rput(const void *origin, int origin_count, ompi_datatype_t *origin_type, int target,
                  ptrdiff_t displacement, int count, ompi_datatype_t *type, ompi_win_t *win,
                  ompi_request_t **request)
{
    drive_progress();
    *request = &ompi_request_empty;
    return smartmap_put(origin, origin_count, origin_type, target, displacement, count, type,
                        win);
}

int smartmap_rget(void *origin, int origin_count, ompi_datatype_t *origin_type, int target,
                  ptrdiff_t displacement, int count, ompi_datatype_t *type, ompi_win_t *win,
                  ompi_request_t **request)
{
    drive_progress();
    *request = &ompi_request_empty;
    return smartmap_get(origin, origin_count, origin_type, target, displacement, count, type,
                        win);
}
