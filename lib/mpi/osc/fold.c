/*
 * Several elements of an accumulate, by Open MPI's operations: where both sides
 * are arrays of the predefined type without gaps, in place; else by way of
 * arrays of it.  (Open MPI's own way takes derived datatypes apart into pieces
 * of memory, and loses elements of MPI_SHORT_INT, which have a gap.)
 */
#include "osc_smartmap.h"

#include <limits.h>
#include <stdlib.h>

static size_t elements_of(const struct buffer *b, const ompi_datatype_t *element)
{
    size_t bytes, one;
    ompi_datatype_type_size(b->type, &bytes);
    ompi_datatype_type_size(element, &one);
    return bytes * (size_t)b->count / one;
}

/** Where a buffer is an array of elements, or NULL. */
static char *as_array(const struct buffer *b, const ompi_datatype_t *element)
{
    ptrdiff_t lb, extent;
    size_t size;
    if (b->type == element)
        return b->address;
    ompi_datatype_type_size(element, &size);
    ompi_datatype_get_extent(element, &lb, &extent);
    if ((ptrdiff_t)size != extent || !ompi_datatype_is_contiguous_memory_layout(b->type, b->count))
        return NULL;
    ompi_datatype_get_true_extent(b->type, &lb, &extent);
    return b->address + lb;
}

/** A copy of a buffer as an array of elements. */
static int gather(const struct buffer *from, struct buffer *array)
{
    ptrdiff_t lb, extent;
    ompi_datatype_get_extent(array->type, &lb, &extent);
    array->address = malloc((size_t)array->count * (size_t)extent);
    return array->address ? buffer_move(array, from) : MPI_ERR_NO_MEM;
}

static int fold_converted(const struct buffer *to, const struct buffer *from, ompi_op_t *op)
{
    ompi_datatype_t *element = ompi_datatype_get_single_predefined_type_from_args(to->type);
    if (!element ||
        element != ompi_datatype_get_single_predefined_type_from_args(from->type))
        return MPI_ERR_TYPE;
    size_t give = elements_of(from, element), take = elements_of(to, element);
    size_t count = give < take ? give : take;
    char *target = as_array(to, element), *source = as_array(from, element);
    if ((!target || !source) && count > INT_MAX)
        return MPI_ERR_COUNT;
    struct buffer targets = { NULL, (int)count, element }, sources = targets;
    int error = OMPI_SUCCESS;
    if (!source && (error = gather(from, &sources)) == OMPI_SUCCESS)
        source = sources.address;
    if (!target && error == OMPI_SUCCESS && (error = gather(to, &targets)) == OMPI_SUCCESS)
        target = targets.address;
    if (error == OMPI_SUCCESS && count > 0)
        ompi_op_reduce(op, source, target, count, element);
    if (targets.address && error == OMPI_SUCCESS)
        error = buffer_move(to, &targets);
    free(sources.address);
    free(targets.address);
    return error == OMPI_SUCCESS && give > take ? MPI_ERR_TRUNCATE : error;
}

/** Accumulate `from` into `to`; too much for it is MPI_ERR_TRUNCATE, and what it takes is done. */
int buffer_fold(const struct buffer *to, const struct buffer *from, ompi_op_t *op)
{
    if (to->type != from->type || !ompi_datatype_is_predefined(to->type))
        return fold_converted(to, from, op);
    int count = from->count < to->count ? from->count : to->count;
    if (count > 0)
        ompi_op_reduce(op, from->address, to->address, (size_t)count, to->type);
    return from->count > to->count ? MPI_ERR_TRUNCATE : OMPI_SUCCESS;
}
