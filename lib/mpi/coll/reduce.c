/*
 * Reduce and allreduce.
 *
 *   small   operands in the slots, every rank folds for itself
 *   large   each rank folds one piece of the vector; allreduce then collects
 *           the pieces, reduce writes them into the root's memory; the root of
 *           two whose operand is fresh folds alone, and two ranks whose short
 *           operands are fresh both fold all of an allreduce
 */
#include "copy.h"
#include "reduction.h"

#include <stdlib.h>
#include <string.h>

enum { EXCHANGED_BYTES = 4096 };

/** The slot in which rank `rank` has put where its result lies; NULL: nowhere. */
static const struct slot *result_of(const struct reduction *d, int rank)
{
    const struct slot *slot;
    if (smartmap_slot_read(d->t, rank, &slot) != MPI_SUCCESS)
        return NULL;
    return slot->entry[1].address ? slot : NULL;
}

/** Elements [begin, end) are rank `rank`'s piece; whole cache lines each. */
static void piece_of(const struct reduction *d, int rank, size_t *begin, size_t *count)
{
    size_t n = (size_t)d->t->size, line = LINE_BYTES;
    size_t piece = ((d->count + n - 1) / n + line - 1) / line * line;
    *begin = piece * (size_t)rank < d->count ? piece * (size_t)rank : d->count;
    *count = d->count - *begin < piece ? d->count - *begin : piece;
}

static bool goes_parallel(const struct reduction *d)
{
    return !d->small && d->span >= (size_t)d->t->use.parallel_bytes;
}

/**
 * More than two ranks divide a large vector; two do if both operands are fresh, and not short (collect_all).
 * Else each folds everything: measured, that costs less, for the operands lie in both caches.
 * Beyond 64 MiB the memory for it would be the greater price.
 */
static bool allreduce_divides(const struct reduction *d)
{
    return goes_parallel(d) && (d->t->size > 2 || d->span > (size_t)64 << 20);
}

/** Of two ranks, when the operands are collected: the same on both.  With a piece for each. */
static bool fresh_in_both(const struct reduction *d, const void *published)
{
    return d->t->size == 2 && d->count > LINE_BYTES && d->fresh && published && result_of(d, 1 - d->t->rank);
}

/**
 * Wait for all operands, and choose what two ranks do with fresh ones: both alike.  If they are short each folds
 * all, its own from a copy in `own`, EXCHANGED_BYTES and a line, so that the other alone reads that where it
 * lies; divided, a second word would have to travel.
 */
static int collect_all(struct reduction *d, const void *published, char *own)
{
    int rank = d->t->rank;
    const char *operand = d->operand[rank] + d->gap;
    char *copy = own + (uintptr_t)operand % LINE_BYTES; /* aligned as that is */
    bool is_short = d->t->size == 2 && !d->small && d->span <= EXCHANGED_BYTES;
    if (is_short && d->fresh)
        memcpy(copy, operand, d->span);
    int error = reduction_collect(d, 0, d->t->size - 1);
    if (error != MPI_SUCCESS || d->divided)
        return error;
    bool exchanged = is_short && d->fresh;
    if (exchanged)
        d->operand[rank] = copy - d->gap;
    d->divided = !exchanged && fresh_in_both(d, published);
    d->keeps = exchanged || d->divided;
    return MPI_SUCCESS;
}

/** Of two ranks' results each half is read by one, who keeps its lines if it may those of rank `rank`'s operand. */
static int copy_piece(const struct reduction *d, int rank, size_t count, char *to, const char *from)
{
    if (!d->kept[rank] || d->t->size > 2)
        return reduction_copy(d, count, to, from);
    copy_and_keep(to + d->gap, from + d->gap, count * (size_t)d->shape.extent);
    return MPI_SUCCESS;
}

/** Copy rank `rank`'s finished piece into our result. */
static int take_piece(struct reduction *d, int rank, char *result)
{
    size_t begin, count;
    const struct slot *slot = result_of(d, rank);
    if (!slot)
        return MPI_ERR_OTHER; /* it died, and that was said */
    int error = smartmap_wait(d->t, rank, &d->t->peer[rank]->stage, d->t->op);
    piece_of(d, rank, &begin, &count);
    if (error != MPI_SUCCESS || count == 0)
        return error;
    ptrdiff_t at = (ptrdiff_t)begin * d->shape.extent;
    const char *theirs = slot->entry[1].address;
    if (!(slot->far & FAR_RESULT))
        return copy_piece(d, rank, count, result + at,
                          (const char *)smartmap_view(d->t, rank, theirs) + at);
    size_t span = reduction_span(d, count);
    char *copy = malloc(span);
    error = copy ? smartmap_fetch(d->t, rank, copy, theirs + at + d->gap, span) : MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = reduction_copy(d, count, result + at, copy - d->gap);
    free(copy);
    return error;
}

/**
 * Allreduce of a large vector: fold our piece, then collect the others'.  After
 * an error, too, the others must not wait for our piece.
 */
static int allreduce_pieces(struct reduction *d, int error, char *result, char *published)
{
    struct team *t = d->t;
    size_t begin, count;
    piece_of(d, t->rank, &begin, &count);
    if (error == MPI_SUCCESS)
        error = reduction_fold(d, 0, t->size - 1, begin, count,
                               published + (ptrdiff_t)begin * d->shape.extent);
    atomic_store_explicit(&t->own->stage, t->op, memory_order_release);
    if (published != result && error == MPI_SUCCESS)
        error = reduction_copy(d, count, result + (ptrdiff_t)begin * d->shape.extent,
                               published + (ptrdiff_t)begin * d->shape.extent);
    for (int i = 1; i < t->size && error == MPI_SUCCESS; i++)
        error = take_piece(d, (t->rank + i) % t->size, result);
    return error;
}

/** Where peers can fetch our piece of the result: in it, beside it, or far. */
static char *publishable(const struct reduction *d, char *result, void **extra)
{
    *extra = NULL;
    if (smartmap_exports(result + d->gap, d->span))
        return result;
    *extra = malloc(d->span);
    return *extra && smartmap_exports(*extra, d->span) ? (char *)*extra - d->gap : result;
}

int smartmap_allreduce(struct team *t, const void *send, void *receive, size_t count,
                       port_type_t type, port_op_t op)
{
    struct reduction d;
    _Alignas(LINE_BYTES) char own[EXCHANGED_BYTES + LINE_BYTES];
    void *extra = NULL;
    if (!reduction_start(&d, t, count, type, op))
        return NOT_SERVED;
    d.divided = d.keeps = allreduce_divides(&d);
    char *published = d.divided ? publishable(&d, receive, &extra) : NULL;
    if (t->size == 2 && !d.divided && !d.small && smartmap_exports((char *)receive + d.gap, d.span))
        published = receive;
    int error = reduction_post(&d, send == MPI_IN_PLACE ? receive : send, published);
    if (error == MPI_SUCCESS)
        error = collect_all(&d, published, own);
    if (d.divided) {
        error = allreduce_pieces(&d, error, receive, published);
        error = reduction_finish(&d, error, ALL_RANKS);
        free(extra);
        return error;
    }
    if (send == MPI_IN_PLACE && d.held && error == MPI_SUCCESS) {
        /* Peers read our operand while we would overwrite it. */
        char *sum = malloc(d.span);
        error = sum ? reduction_fold(&d, 0, t->size - 1, 0, d.count, sum - d.gap)
                    : MPI_ERR_NO_MEM;
        error = reduction_finish(&d, error, ALL_RANKS);
        if (error == MPI_SUCCESS)
            error = reduction_copy(&d, d.count, receive, sum - d.gap);
        free(sum);
        return error;
    }
    if (error == MPI_SUCCESS)
        error = reduction_fold(&d, 0, t->size - 1, 0, d.count, receive);
    return reduction_finish(&d, error, ALL_RANKS);
}

/** All ranks fold their pieces into the root's memory, where it is reachable. */
static int reduce_pieces(struct reduction *d, char *result)
{
    size_t begin, count;
    piece_of(d, d->t->rank, &begin, &count);
    int error = reduction_collect(d, 0, d->t->size - 1);
    if (error != MPI_SUCCESS)
        return error;
    return reduction_fold(d, 0, d->t->size - 1, begin, count,
                          result + (ptrdiff_t)begin * d->shape.extent);
}

int smartmap_reduce(struct team *t, const void *send, void *receive, size_t count,
                    port_type_t type, port_op_t op, int root)
{
    struct reduction d;
    if (!reduction_start(&d, t, count, type, op))
        return NOT_SERVED;
    d.small = d.span <= (size_t)t->use.one_way_bytes;
    bool is_root = t->rank == root;
    bool shared = is_root && goes_parallel(&d) &&
                  smartmap_exports((char *)receive + d.gap, d.span);
    int error = reduction_post(&d, send == MPI_IN_PLACE ? receive : send,
                               shared ? receive : NULL);
    if (error != MPI_SUCCESS)
        return reduction_finish(&d, error, NO_RANK);
    d.keeps = !d.small;
    if (goes_parallel(&d)) {
        const struct slot *slot = is_root ? NULL : result_of(&d, root);
        char *result = shared ? receive : NULL;
        if (slot)
            result = smartmap_view(t, root, slot->entry[1].address);
        if (result && !(t->size == 2 && (is_root ? d.fresh : slot->fresh))) {
            d.divided = true;
            error = reduce_pieces(&d, result);
            d.held = true; /* and the root waits for its pieces */
            return reduction_finish(&d, error, ALL_RANKS);
        }
    }
    if (is_root) {
        error = reduction_collect(&d, 0, t->size - 1);
        if (error == MPI_SUCCESS)
            error = reduction_fold(&d, 0, t->size - 1, 0, d.count, receive);
    }
    return reduction_finish(&d, error, is_root ? NO_RANK : root);
}
