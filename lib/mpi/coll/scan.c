/*
 * Reductions whose result differs from rank to rank: reduce_scatter(_block),
 * scan, exscan.
 */
#include "reduction.h"

#include <stdlib.h>

/** Fold elements [from, from + count) of ranks [0, last] into `receive`. */
static int fold_segment(struct reduction *d, int last, size_t from, size_t count,
                        char *receive, bool in_place)
{
    char *sum = NULL;
    if (in_place && d->held && !(sum = malloc(reduction_span(d, count))))
        return reduction_finish(d, MPI_ERR_NO_MEM, ALL_RANKS);
    int error = reduction_fold(d, 0, last, from, count, sum ? sum - d->gap : receive);
    error = reduction_finish(d, error, ALL_RANKS);
    if (sum && error == MPI_SUCCESS)
        error = reduction_copy(d, count, receive, sum - d->gap);
    free(sum);
    return error;
}

static int reduce_scatter(struct team *t, const void *send, void *receive,
                          size_t from, size_t count, struct reduction *d)
{
    bool in_place = send == MPI_IN_PLACE;
    d->keeps = !d->small;
    int error = reduction_post(d, in_place ? receive : send, NULL);
    if (error == MPI_SUCCESS)
        error = reduction_collect(d, 0, t->size - 1);
    if (error != MPI_SUCCESS)
        return reduction_finish(d, error, ALL_RANKS);
    return fold_segment(d, t->size - 1, from, count, receive, in_place);
}

int smartmap_reduce_scatter(struct team *t, const void *send, void *receive,
                            struct numbers rcounts, port_type_t type, port_op_t op)
{
    struct reduction d;
    size_t total = 0, from = 0;
    for (int r = 0; r < t->size; r++) {
        from += r < t->rank ? (size_t)number(rcounts, r) : 0;
        total += (size_t)number(rcounts, r);
    }
    if (total > PORT_MAX_COUNT || !reduction_start(&d, t, total, type, op))
        return NOT_SERVED;
    return reduce_scatter(t, send, receive, from, (size_t)number(rcounts, t->rank), &d);
}

int smartmap_reduce_scatter_block(struct team *t, const void *send, void *receive,
                                  size_t rcount, port_type_t type, port_op_t op)
{
    struct reduction d;
    size_t total = rcount * (size_t)t->size;
    if (total > PORT_MAX_COUNT || !reduction_start(&d, t, total, type, op))
        return NOT_SERVED;
    return reduce_scatter(t, send, receive, rcount * (size_t)t->rank, rcount, &d);
}

/** Prefix over ranks [0, last]; last < 0: nothing to compute here. */
static int prefix(struct reduction *d, const void *send, void *receive, int last)
{
    bool in_place = send == MPI_IN_PLACE;
    int error = reduction_post(d, in_place ? receive : send, NULL);
    if (error == MPI_SUCCESS)
        error = reduction_collect(d, 0, last);
    if (error != MPI_SUCCESS || last < 0)
        return reduction_finish(d, error, ALL_RANKS);
    return fold_segment(d, last, 0, d->count, receive, in_place);
}

int smartmap_scan(struct team *t, const void *send, void *receive, size_t count,
                  port_type_t type, port_op_t op)
{
    struct reduction d;
    if (!reduction_start(&d, t, count, type, op))
        return NOT_SERVED;
    return prefix(&d, send, receive, t->rank);
}

int smartmap_exscan(struct team *t, const void *send, void *receive, size_t count,
                    port_type_t type, port_op_t op)
{
    struct reduction d;
    if (!reduction_start(&d, t, count, type, op))
        return NOT_SERVED;
    return prefix(&d, send, receive, t->rank - 1);
}
