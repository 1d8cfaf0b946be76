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
    ptrdiff_t gap;
    size_t span = (size_t)opal_datatype_span(&d->type->super, count, &gap);
    char *sum = NULL;
    if (in_place && d->held && !(sum = malloc(span)))
        return reduction_finish(d, MPI_ERR_NO_MEM, ALL_RANKS);
    int error = reduction_fold(d, 0, last, from, count, sum ? sum - gap : receive);
    error = reduction_finish(d, error, ALL_RANKS);
    if (sum && error == OMPI_SUCCESS)
        reduction_copy(d, count, receive, sum - gap);
    free(sum);
    return error;
}

static int reduce_scatter(smartmap_module_t *m, const void *send, void *receive,
                          size_t from, size_t count, struct reduction *d)
{
    bool in_place = send == MPI_IN_PLACE;
    int error = reduction_post(d, in_place ? receive : send, NULL);
    if (error == OMPI_SUCCESS)
        error = reduction_collect(d, 0, m->size - 1);
    if (error != OMPI_SUCCESS)
        return reduction_finish(d, error, ALL_RANKS);
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
    if (!smartmap_ready(m, comm) || !reduction_start(&d, m, total, type, op) || total > INT32_MAX)
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
    if (!smartmap_ready(m, comm) || !reduction_start(&d, m, total, type, op) || total > INT32_MAX)
        return SMARTMAP_PREVIOUS(m, reduce_scatter_block, send, receive, rcount, type, op,
                                 comm);
    return reduce_scatter(m, send, receive, (size_t)rcount * (size_t)m->rank,
                          (size_t)rcount, &d);
}

/** Prefix over ranks [0, last]; last < 0: nothing to compute here. */
static int prefix(struct reduction *d, const void *send, void *receive, int last)
{
    bool in_place = send == MPI_IN_PLACE;
    int error = reduction_post(d, in_place ? receive : send, NULL);
    if (error == OMPI_SUCCESS)
        error = reduction_collect(d, 0, last);
    if (error != OMPI_SUCCESS || last < 0)
        return reduction_finish(d, error, ALL_RANKS);
    return fold_segment(d, last, 0, d->count, receive, in_place);
}

int smartmap_scan(const void *send, void *receive, int count, ompi_datatype_t *type,
                  ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    if (!smartmap_ready(m, comm) || !reduction_start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, scan, send, receive, count, type, op, comm);
    return prefix(&d, send, receive, m->rank);
}

int smartmap_exscan(const void *send, void *receive, int count, ompi_datatype_t *type,
                    ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    struct reduction d;
    if (!smartmap_ready(m, comm) || !reduction_start(&d, m, (size_t)count, type, op))
        return SMARTMAP_PREVIOUS(m, exscan, send, receive, count, type, op, comm);
    return prefix(&d, send, receive, m->rank - 1);
}
