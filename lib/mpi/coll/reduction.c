/*
 * Operands: where they lie, how peers reach them, and folding them.
 */
#include "copy.h"
#include "reduction.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 }; /* fold so much at a time: stays in the L1 cache */

bool reduction_start(struct reduction *d, struct team *t, size_t count,
                     port_type_t type, port_op_t op)
{
    d->t = t;
    d->type = type;
    d->op = op;
    d->count = count;
    d->temporary = NULL;
    d->held = d->fresh = d->divided = d->keeps = false;
    d->given = (struct entry){ NULL, 0 };
    d->kept[t->rank] = false;
    memset(d->fetched, 0, (size_t)t->size * sizeof *d->fetched);
    d->shape = smartmap_shape(type);
    d->gap = d->shape.true_lb;
    d->span = reduction_span(d, count);
    d->small = d->span <= (size_t)t->use.inline_bytes;
    return d->shape.extent >= d->shape.true_extent; /* elements must not overlap */
}

/** Bytes from the first to the last of so many elements. */
size_t reduction_span(const struct reduction *d, size_t count)
{
    return count == 0 ? 0
                      : (count - 1) * (size_t)d->shape.extent + (size_t)d->shape.true_extent;
}

int reduction_copy(const struct reduction *d, size_t count, void *to, const void *from)
{
    if (to == from || count == 0)
        return MPI_SUCCESS;
    if (!d->shape.dense)
        return smartmap_convert(&(struct buffer){ (void *)from, count, d->type },
                                &(struct buffer){ to, count, d->type });
    memcpy((char *)to + d->gap, (const char *)from + d->gap,
           count * (size_t)d->shape.extent);
    return MPI_SUCCESS;
}

/** An operand that peers cannot reach, copied to where they can, or far. */
static const char *reachable_copy(struct reduction *d, const char *from)
{
    d->temporary = malloc(d->span);
    char *copy = (char *)d->temporary - d->gap;
    if (d->temporary && smartmap_exports(d->temporary, d->span) &&
        reduction_copy(d, d->count, copy, from) == MPI_SUCCESS)
        return copy;
    d->slot->far |= FAR_DATA;
    return from;
}

/**
 * Post our operand; entry[1] carries `result`, where peers find (allreduce) or
 * put (reduce) results, or NULL.  Only what is found may be far.
 */
int reduction_post(struct reduction *d, const void *operand, const void *result)
{
    struct team *t = d->t;
    int error = smartmap_slot_open(t, &d->slot);
    if (error != MPI_SUCCESS)
        return error;
    struct slot *slot = d->slot;
    const char *from = operand;
    if (d->small) {
        char *data = slot->data + 2 * sizeof(struct entry);
        error = reduction_copy(d, d->count, data - d->gap, operand);
        from = data - d->gap;
    } else {
        d->held = true;
        order_streamed();
        if (!smartmap_exports(from + d->gap, d->span))
            from = reachable_copy(d, operand);
        else
            d->given = (struct entry){ from + d->gap, d->span };
    }
    if (result && !smartmap_exports((const char *)result + d->gap, d->span))
        slot->far |= FAR_RESULT;
    slot->kind = error == MPI_SUCCESS ? SLOT_SAME : SLOT_ERROR;
    slot->fresh = d->fresh = d->given.bytes > 0 && smartmap_fresh(t, &d->given, 1);
    slot->entry[0] = (struct entry){ from, d->span };
    slot->entry[1] = (struct entry){ result, d->span };
    d->operand[t->rank] = from;
    smartmap_slot_post(t, slot);
    return error;
}

/** A far operand of rank `rank`, copied here until the reduction ends. */
static int fetch_operand(struct reduction *d, int rank, const char *theirs)
{
    d->fetched[rank] = malloc(d->span);
    d->operand[rank] = (char *)d->fetched[rank] - d->gap;
    return d->fetched[rank]
               ? smartmap_fetch(d->t, rank, d->fetched[rank], theirs + d->gap, d->span)
               : MPI_ERR_NO_MEM;
}

static int collect_from(struct reduction *d, int rank)
{
    const struct slot *slot;
    int error = smartmap_slot_read(d->t, rank, &slot);
    if (error != MPI_SUCCESS)
        return error;
    if (slot->entry[0].bytes != d->span)
        return MPI_ERR_TRUNCATE;
    d->operand[rank] = smartmap_view(d->t, rank, slot->entry[0].address);
    d->kept[rank] = slot->fresh && d->shape.dense; /* what lies in gaps may be written meanwhile */
    d->fresh = d->fresh && slot->fresh;
    return slot->far & FAR_DATA ? fetch_operand(d, rank, slot->entry[0].address) : MPI_SUCCESS;
}

/**
 * Wait for the operands of ranks [first, last]: of all, whatever is wrong with
 * one, unless it has died (MPI_ERR_OTHER), for `failed` has one word.
 */
int reduction_collect(struct reduction *d, int first, int last)
{
    int failed = MPI_SUCCESS;
    for (int r = first; r <= last && failed != MPI_ERR_OTHER; r++) {
        int error = r == d->t->rank ? MPI_SUCCESS : collect_from(d, r);
        failed = failed == MPI_SUCCESS || error == MPI_ERR_OTHER ? error : failed;
    }
    return failed;
}

/** Fold one block; `at` is its offset in each operand. */
static int fold_block(const struct reduction *d, int first, int last, ptrdiff_t at,
                      size_t count, char *to)
{
    int r = last - 1;
    int error = last > first /* by three: saves copying the last operand */
                    ? smartmap_combine_three(d->op, d->operand[r] + at, d->operand[last] + at,
                                             to, count, d->type)
                    : NOT_SERVED;
    if (error == NOT_SERVED)
        error = reduction_copy(d, count, to, d->operand[last] + at);
    else
        r--;
    for (; r >= first && error == MPI_SUCCESS; r--)
        error = smartmap_combine(d->op, d->operand[r] + at, to, count, d->type);
    for (r = first; d->keeps && r <= last; r++)
        if (d->kept[r])
            keep_lines(d->operand[r] + at + d->gap, count * (size_t)d->shape.extent);
    return error;
}

/**
 * Fold elements [from, from + count) of ranks [first, last] into `to`, which
 * may be one of the operands itself: then each block goes by way of a scratch.
 */
int reduction_fold(const struct reduction *d, int first, int last, size_t from,
                   size_t count, char *to)
{
    size_t block = BLOCK_BYTES / (size_t)(d->shape.extent > 0 ? d->shape.extent : 1);
    block = block > 0 ? block : 1;
    bool aliased = false;
    ptrdiff_t base = (ptrdiff_t)from * d->shape.extent;
    for (int r = first; r <= last; r++)
        aliased = aliased || d->operand[r] + base == to;
    char *scratch = NULL;
    if (aliased && last > first &&
        !(scratch = malloc((size_t)d->shape.extent * block + (size_t)labs(d->gap))))
        return MPI_ERR_NO_MEM;
    int error = MPI_SUCCESS;
    for (size_t i = 0; i < count && error == MPI_SUCCESS; i += block) {
        size_t part = count - i < block ? count - i : block;
        ptrdiff_t at = base + (ptrdiff_t)i * d->shape.extent;
        char *target = scratch ? scratch - d->gap : to + (ptrdiff_t)i * d->shape.extent;
        error = fold_block(d, first, last, at, part, target);
        if (scratch && error == MPI_SUCCESS)
            error = reduction_copy(d, part, to + (ptrdiff_t)i * d->shape.extent, target);
    }
    free(scratch);
    return error;
}

/** Wait until rank `rank` reads no more; of a divided reduction, whether it has succeeded. */
static int wait_reader(const struct reduction *d, int rank)
{
    struct team *t = d->t;
    int error = smartmap_wait_done(t, rank, t->op);
    if (error == MPI_SUCCESS && d->divided &&
        atomic_load_explicit(&t->peer[rank]->failed, memory_order_relaxed) >= t->op)
        return MPI_ERR_OTHER;
    return error;
}

/** End: others may still be reading our operand in place. */
int reduction_finish(struct reduction *d, int error, int reader)
{
    struct team *t = d->t;
    if (d->divided && error != MPI_SUCCESS)
        atomic_store_explicit(&t->own->failed, t->op, memory_order_relaxed);
    smartmap_done(t);
    if (d->given.bytes > 0)
        smartmap_note_given(t, &d->given, 1);
    for (int i = 1; d->held && i < t->size; i++) {
        int r = (t->rank + i) % t->size;
        int waited = reader == ALL_RANKS || reader == r ? wait_reader(d, r) : MPI_SUCCESS;
        error = error != MPI_SUCCESS ? error : waited;
    }
    free(d->temporary);
    for (int r = 0; r < t->size; r++)
        free(d->fetched[r]);
    return error;
}
