/*
 * Reductions.
 *
 * Operands stay where they are, in the layout of their datatype, and whoever
 * needs a result folds the ranks' operands straight from their memory:
 *
 *     x0 op (x1 op (... op xn-1))
 *
 * always in rank order and always with this association, so non-commutative
 * operations are right and results are the same bits from run to run, for
 * every message size and on every rank.
 *
 *   small   operands in the slots, every rank folds for itself
 *   large   each rank folds one piece of the vector; allreduce then collects
 *           the pieces, reduce writes them into the root's memory
 */
#include "coll_smartmap.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 }; /* fold so much at a time: stays in the L1 cache */

/** One reduction as one rank sees it. */
struct reduction {
    smartmap_module_t *m;
    ompi_datatype_t *type;
    ompi_op_t *op;
    size_t count;
    ptrdiff_t extent, gap; /* gap: from a buffer's address to its first byte */
    size_t span;           /* bytes from first to last */
    bool small;            /* operands travel in the slots */
    bool dense;            /* elements without gaps: plain bytes */
    struct slot *slot;
    void *temporary;
    bool held;
    const char *operand[SMARTMAP_MAX_RANKS];
    void *fetched[SMARTMAP_MAX_RANKS]; /* copies of far operands; NULL: none */
};

static bool start(struct reduction *d, smartmap_module_t *m, size_t count,
                  ompi_datatype_t *type, ompi_op_t *op)
{
    ptrdiff_t lb;
    d->m = m;
    d->type = type;
    d->op = op;
    d->count = count;
    d->temporary = NULL;
    d->held = false;
    memset(d->fetched, 0, (size_t)m->size * sizeof *d->fetched);
    ompi_datatype_get_extent(type, &lb, &d->extent);
    d->span = (size_t)opal_datatype_span(&type->super, count, &d->gap);
    d->small = d->span <= (size_t)mca_coll_smartmap_component.inline_bytes;
    ptrdiff_t true_lb, true_extent;
    ompi_datatype_get_true_extent(type, &true_lb, &true_extent);
    d->dense = ompi_datatype_is_contiguous_memory_layout(type, 2) &&
               d->extent == true_extent;
    return d->extent >= true_extent; /* elements must not overlap */
}

static void copy_elements(const struct reduction *d, size_t count, void *to,
                          const void *from)
{
    if (to == from || count == 0)
        return;
    if (d->dense)
        memcpy((char *)to + d->gap, (const char *)from + d->gap,
               count * (size_t)d->extent);
    else
        ompi_datatype_copy_content_same_ddt(d->type, (int32_t)count, to, (char *)from);
}

/** An operand that peers cannot reach, copied to where they can, or far. */
static const char *reachable_copy(struct reduction *d, const char *from)
{
    d->temporary = malloc(d->span);
    if (!d->temporary || !smartmap_exports(d->temporary, d->span)) {
        d->slot->far |= FAR_DATA;
        return from;
    }
    char *copy = (char *)d->temporary - d->gap;
    copy_elements(d, d->count, copy, from);
    return copy;
}

/**
 * Post our operand; entry[1] carries `result`, where peers find (allreduce) or
 * put (reduce) results, or NULL.  Only what is found may be far.
 */
static int post(struct reduction *d, const void *operand, const void *result)
{
    smartmap_module_t *m = d->m;
    int error = smartmap_slot_open(m, &d->slot);
    if (error != OMPI_SUCCESS)
        return error;
    struct slot *slot = d->slot;
    const char *from = operand;
    if (d->small) {
        char *data = slot->data + 2 * sizeof(struct entry);
        copy_elements(d, d->count, data - d->gap, operand);
        from = data - d->gap;
    } else {
        d->held = true;
        if (!smartmap_exports(from + d->gap, d->span))
            from = reachable_copy(d, operand);
    }
    if (result && !smartmap_exports((const char *)result + d->gap, d->span))
        slot->far |= FAR_RESULT;
    slot->kind = SLOT_SAME;
    slot->entry[0] = (struct entry){ from, d->span };
    slot->entry[1] = (struct entry){ result, d->span };
    d->operand[m->rank] = from;
    smartmap_slot_post(m, slot);
    return OMPI_SUCCESS;
}

/** A far operand of rank `rank`, copied here until the reduction ends. */
static int fetch_operand(struct reduction *d, int rank, const char *theirs)
{
    d->fetched[rank] = malloc(d->span);
    d->operand[rank] = (char *)d->fetched[rank] - d->gap;
    return d->fetched[rank]
               ? smartmap_fetch(d->m, rank, d->fetched[rank], theirs + d->gap, d->span)
               : MPI_ERR_NO_MEM;
}

/** Wait for the operands of ranks [first, last]. */
static int collect(struct reduction *d, int first, int last)
{
    for (int r = first; r <= last; r++) {
        const struct slot *slot;
        if (r == d->m->rank)
            continue;
        int error = smartmap_slot_read(d->m, r, &slot);
        if (error != OMPI_SUCCESS)
            return error;
        if (slot->entry[0].bytes != d->span)
            return MPI_ERR_TRUNCATE;
        d->operand[r] = smartmap_view(d->m, r, slot->entry[0].address);
        if (slot->far & FAR_DATA)
            error = fetch_operand(d, r, slot->entry[0].address);
        if (error != OMPI_SUCCESS)
            return error;
    }
    return OMPI_SUCCESS;
}

/** The slot in which rank `rank` told where its result lies; NULL: nowhere. */
static const struct slot *result_of(const struct reduction *d, int rank)
{
    const struct slot *slot;
    if (smartmap_slot_read(d->m, rank, &slot) != OMPI_SUCCESS)
        return NULL;
    return slot->entry[1].address ? slot : NULL;
}

/** Fold one block; `at` is its offset in each operand. */
static void fold_block(const struct reduction *d, int first, int last, ptrdiff_t at,
                       size_t count, char *to)
{
    int r = last - 1;
    bool three = ompi_op_is_intrinsic(d->op) && ompi_datatype_is_predefined(d->type) &&
                 last > first;
    if (three) { /* saves copying the last operand */
        ompi_3buff_op_reduce(d->op, (char *)d->operand[r] + at,
                             (char *)d->operand[last] + at, to, (int)count, d->type);
        r--;
    } else {
        copy_elements(d, count, to, d->operand[last] + at);
    }
    for (; r >= first; r--)
        ompi_op_reduce(d->op, (char *)d->operand[r] + at, to, count, d->type);
}

/**
 * Fold elements [from, from + count) of ranks [first, last] into `to`, which
 * may be one of the operands itself: then each block goes by way of a scratch.
 */
static int fold(const struct reduction *d, int first, int last, size_t from, size_t count,
                char *to)
{
    size_t block = BLOCK_BYTES / (size_t)(d->extent > 0 ? d->extent : 1);
    block = block > 0 ? block : 1;
    bool aliased = false;
    ptrdiff_t base = (ptrdiff_t)from * d->extent;
    for (int r = first; r <= last; r++)
        aliased = aliased || d->operand[r] + base == to;
    char *scratch = NULL;
    if (aliased && last > first &&
        !(scratch = malloc((size_t)d->extent * block + (size_t)labs(d->gap))))
        return MPI_ERR_NO_MEM;
    for (size_t i = 0; i < count; i += block) {
        size_t part = count - i < block ? count - i : block;
        ptrdiff_t at = base + (ptrdiff_t)i * d->extent;
        char *target = scratch ? scratch - d->gap : to + (ptrdiff_t)i * d->extent;
        fold_block(d, first, last, at, part, target);
        if (scratch)
            copy_elements(d, part, to + (ptrdiff_t)i * d->extent, target);
    }
    free(scratch);
    return OMPI_SUCCESS;
}

/** End: others may still be reading our operand in place. */
static int finish(struct reduction *d, int error, int reader)
{
    smartmap_module_t *m = d->m;
    smartmap_done(m);
    for (int i = 1; d->held && i < m->size; i++) {
        int r = (m->rank + i) % m->size;
        int waited = reader == ALL_RANKS || reader == r ? smartmap_wait_done(m, r, m->op)
                                                        : OMPI_SUCCESS;
        error = error != OMPI_SUCCESS ? error : waited;
    }
    free(d->temporary);
    for (int r = 0; r < m->size; r++)
        free(d->fetched[r]);
    return error;
}

/** Elements [begin, end) are rank `rank`'s piece; whole cache lines each. */
static void piece_of(const struct reduction *d, int rank, size_t *begin, size_t *count)
{
    size_t n = (size_t)d->m->size, line = LINE_BYTES;
    size_t piece = ((d->count + n - 1) / n + line - 1) / line * line;
    *begin = piece * (size_t)rank < d->count ? piece * (size_t)rank : d->count;
    *count = d->count - *begin < piece ? d->count - *begin : piece;
}

static bool goes_parallel(const struct reduction *d)
{
    return !d->small &&
           d->span >= (size_t)mca_coll_smartmap_component.parallel_bytes;
}

/**
 * Two ranks fold everything twice: measured, that costs less than handing each
 * other half of the result, for lines that the peer has read are dear to write
 * again.  Beyond 64 MiB the memory for it would be the greater price.
 */
static bool allreduce_goes_parallel(const struct reduction *d)
{
    return goes_parallel(d) && (d->m->size > 2 || d->span > (size_t)64 << 20);
}

/** Copy rank `rank`'s finished piece into our result. */
static int take_piece(struct reduction *d, int rank, char *result)
{
    size_t begin, count;
    const struct slot *slot = result_of(d, rank);
    if (!slot)
        return MPI_ERR_OTHER; /* it died, and that was said */
    int error = smartmap_wait(d->m, rank, &d->m->peer[rank]->stage, d->m->op);
    piece_of(d, rank, &begin, &count);
    if (error != OMPI_SUCCESS || count == 0)
        return error;
    ptrdiff_t at = (ptrdiff_t)begin * d->extent, gap;
    const char *theirs = slot->entry[1].address;
    if (!(slot->far & FAR_RESULT)) {
        copy_elements(d, count, result + at, (char *)smartmap_view(d->m, rank, theirs) + at);
        return OMPI_SUCCESS;
    }
    size_t span = (size_t)opal_datatype_span(&d->type->super, count, &gap);
    char *copy = malloc(span);
    error = copy ? smartmap_fetch(d->m, rank, copy, theirs + at + gap, span) : MPI_ERR_NO_MEM;
    if (error == OMPI_SUCCESS)
        copy_elements(d, count, result + at, copy - gap);
    free(copy);
    return error;
}

/** Allreduce of a large vector: fold our piece, then collect the others'. */
static int allreduce_pieces(struct reduction *d, char *result, char *published)
{
    smartmap_module_t *m = d->m;
    size_t begin, count;
    piece_of(d, m->rank, &begin, &count);
    int error = fold(d, 0, m->size - 1, begin, count,
                     published + (ptrdiff_t)begin * d->extent);
    atomic_store_explicit(&m->own->stage, m->op, memory_order_release);
    if (published != result)
        copy_elements(d, count, result + (ptrdiff_t)begin * d->extent,
                      published + (ptrdiff_t)begin * d->extent);
    for (int i = 1; i < m->size && error == OMPI_SUCCESS; i++)
        error = take_piece(d, (m->rank + i) % m->size, result);
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

int smartmap_allreduce(const void *send, void *receive, int count, ompi_datatype_t *type,
                       ompi_op_t *op, ompi_communicator_t *comm,
                       mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    void *extra = NULL;
    if (!smartmap_ready(m, comm) || !start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, allreduce, send, receive, count, type, op, comm);
    bool parallel = allreduce_goes_parallel(&d);
    char *published = parallel ? publishable(&d, receive, &extra) : NULL;
    int error = post(&d, send == MPI_IN_PLACE ? receive : send, published);
    if (error == OMPI_SUCCESS)
        error = collect(&d, 0, m->size - 1);
    if (error == OMPI_SUCCESS && parallel) {
        error = allreduce_pieces(&d, receive, published);
        error = finish(&d, error, ALL_RANKS);
        free(extra);
        return error;
    }
    if (send == MPI_IN_PLACE && d.held && error == OMPI_SUCCESS) {
        /* Peers read our operand while we would overwrite it. */
        char *sum = malloc(d.span);
        error = sum ? fold(&d, 0, m->size - 1, 0, d.count, sum - d.gap) : MPI_ERR_NO_MEM;
        error = finish(&d, error, ALL_RANKS);
        if (error == OMPI_SUCCESS)
            copy_elements(&d, d.count, receive, sum - d.gap);
        free(sum);
        return error;
    }
    if (error == OMPI_SUCCESS)
        error = fold(&d, 0, m->size - 1, 0, d.count, receive);
    return finish(&d, error, ALL_RANKS);
}

/** All ranks fold their pieces into the root's memory, where it is reachable. */
static int reduce_pieces(struct reduction *d, char *result)
{
    size_t begin, count;
    piece_of(d, d->m->rank, &begin, &count);
    int error = collect(d, 0, d->m->size - 1);
    if (error != OMPI_SUCCESS)
        return error;
    return fold(d, 0, d->m->size - 1, begin, count, result + (ptrdiff_t)begin * d->extent);
}

int smartmap_reduce(const void *send, void *receive, int count, ompi_datatype_t *type,
                    ompi_op_t *op, int root, ompi_communicator_t *comm,
                    mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    if (!smartmap_ready(m, comm) || !start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, reduce, send, receive, count, type, op, root, comm);
    d.small = d.span <= (size_t)mca_coll_smartmap_component.one_way_bytes;
    bool is_root = m->rank == root;
    bool shared = is_root && goes_parallel(&d) &&
                  smartmap_exports((char *)receive + d.gap, d.span);
    int error = post(&d, send == MPI_IN_PLACE ? receive : send, shared ? receive : NULL);
    if (error != OMPI_SUCCESS)
        return finish(&d, error, NO_RANK);
    if (goes_parallel(&d)) {
        const struct slot *slot = is_root ? NULL : result_of(&d, root);
        char *result = shared ? receive : NULL;
        if (slot)
            result = smartmap_view(m, root, slot->entry[1].address);
        if (result) {
            error = reduce_pieces(&d, result);
            d.held = true; /* and the root waits for its pieces */
            return finish(&d, error, ALL_RANKS);
        }
    }
    if (is_root) {
        error = collect(&d, 0, m->size - 1);
        if (error == OMPI_SUCCESS)
            error = fold(&d, 0, m->size - 1, 0, d.count, receive);
    }
    return finish(&d, error, is_root ? NO_RANK : root);
}

/** Fold elements [from, from + count) of ranks [0, last] into `receive`. */
static int fold_segment(struct reduction *d, int last, size_t from, size_t count,
                        char *receive, bool in_place)
{
    ptrdiff_t gap;
    size_t span = (size_t)opal_datatype_span(&d->type->super, count, &gap);
    char *sum = NULL;
    if (in_place && d->held && !(sum = malloc(span)))
        return finish(d, MPI_ERR_NO_MEM, ALL_RANKS);
    int error = fold(d, 0, last, from, count, sum ? sum - gap : receive);
    error = finish(d, error, ALL_RANKS);
    if (sum && error == OMPI_SUCCESS)
        copy_elements(d, count, receive, sum - gap);
    free(sum);
    return error;
}

static int reduce_scatter(smartmap_module_t *m, const void *send, void *receive,
                          size_t from, size_t count, struct reduction *d)
{
    bool in_place = send == MPI_IN_PLACE;
    int error = post(d, in_place ? receive : send, NULL);
    if (error == OMPI_SUCCESS)
        error = collect(d, 0, m->size - 1);
    if (error != OMPI_SUCCESS)
        return finish(d, error, ALL_RANKS);
    return fold_segment(d, m->size - 1, from, count, receive, in_place);
}

int smartmap_reduce_scatter(const void *send, void *receive, const int *rcounts,
                            ompi_datatype_t *type, ompi_op_t *op, ompi_communicator_t *comm,
                            mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    size_t total = 0, from = 0;
    for (int r = 0; r < m->size; r++) {
        from += r < m->rank ? (size_t)rcounts[r] : 0;
        total += (size_t)rcounts[r];
    }
    if (!smartmap_ready(m, comm) || !start(&d, m, total, type, op) || total > INT32_MAX)
        return SMARTMAP_PREVIOUS(m, reduce_scatter, send, receive, rcounts, type, op, comm);
    return reduce_scatter(m, send, receive, from, (size_t)rcounts[m->rank], &d);
}

int smartmap_reduce_scatter_block(const void *send, void *receive, int rcount,
                                  ompi_datatype_t *type, ompi_op_t *op,
                                  ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    size_t total = (size_t)rcount * (size_t)m->size;
    if (!smartmap_ready(m, comm) || !start(&d, m, total, type, op) || total > INT32_MAX)
        return SMARTMAP_PREVIOUS(m, reduce_scatter_block, send, receive, rcount, type, op,
                                 comm);
    return reduce_scatter(m, send, receive, (size_t)rcount * (size_t)m->rank,
                          (size_t)rcount, &d);
}

/** Prefix over ranks [0, last]; last < 0: nothing to compute here. */
static int prefix(struct reduction *d, const void *send, void *receive, int last)
{
    bool in_place = send == MPI_IN_PLACE;
    int error = post(d, in_place ? receive : send, NULL);
    if (error == OMPI_SUCCESS)
        error = collect(d, 0, last);
    if (error != OMPI_SUCCESS || last < 0)
        return finish(d, error, ALL_RANKS);
    return fold_segment(d, last, 0, d->count, receive, in_place);
}

int smartmap_scan(const void *send, void *receive, int count, ompi_datatype_t *type,
                  ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    if (!smartmap_ready(m, comm) || !start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, scan, send, receive, count, type, op, comm);
    return prefix(&d, send, receive, m->rank);
}

int smartmap_exscan(const void *send, void *receive, int count, ompi_datatype_t *type,
                    ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    if (!smartmap_ready(m, comm) || !start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, exscan, send, receive, count, type, op, comm);
    return prefix(&d, send, receive, m->rank - 1);
}
