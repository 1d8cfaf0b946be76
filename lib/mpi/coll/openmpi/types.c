/*
 * Datatypes and operations by Open MPI's own convertors and functions.
 */
#include "strided.h"
#include "team.h"

#include "opal/datatype/opal_convertor.h"

struct shape smartmap_shape(port_type_t type)
{
    struct shape shape;
    ptrdiff_t lb;
    ompi_datatype_get_extent(type, &lb, &shape.extent);
    ompi_datatype_get_true_extent(type, &shape.true_lb, &shape.true_extent);
    shape.dense = ompi_datatype_is_contiguous_memory_layout(type, 2) &&
                  shape.extent == shape.true_extent;
    return shape;
}

size_t smartmap_packed_bytes(const struct buffer *b)
{
    size_t size;
    ompi_datatype_type_size(b->type, &size);
    return size * b->count;
}

bool smartmap_is_contiguous(const struct buffer *b, char **start)
{
    ptrdiff_t lb, extent;
    if (!ompi_datatype_is_contiguous_memory_layout(b->type, (int32_t)b->count))
        return false;
    ompi_datatype_get_true_extent(b->type, &lb, &extent);
    *start = (char *)b->address + lb;
    return true;
}

typedef int32_t step_fn(opal_convertor_t *, struct iovec *, uint32_t *, size_t *);

/** Convert until all bytes are moved; convertors may stop in between. */
static int convert(opal_convertor_t *convertor, step_fn *step, void *packed, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        struct iovec part = { (char *)packed + at, bytes - at };
        uint32_t parts = 1;
        size_t moved = bytes - at;
        if (step(convertor, &part, &parts, &moved) < 0)
            return OMPI_ERROR;
        if (moved == 0)
            break;
        at += moved;
    }
    return OMPI_SUCCESS;
}

int smartmap_pack_scattered(const struct buffer *b, void *to, size_t bytes)
{
    struct strided blocks;
    if (strided_describe(&blocks, b->address, b->count, b->type)) {
        strided_pack(&blocks, 0, to, bytes);
        return OMPI_SUCCESS;
    }
    opal_convertor_t convertor;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int error = opal_convertor_copy_and_prepare_for_send(
        ompi_mpi_local_convertor, &b->type->super, b->count, b->address, 0, &convertor);
    if (error == OPAL_SUCCESS)
        error = convert(&convertor, opal_convertor_pack, to, bytes);
    OBJ_DESTRUCT(&convertor);
    return error;
}

int smartmap_unpack_scattered(const struct buffer *b, const void *from, size_t bytes)
{
    struct strided blocks;
    if (strided_describe(&blocks, b->address, b->count, b->type)) {
        strided_unpack(&blocks, 0, from, bytes);
        return OMPI_SUCCESS;
    }
    opal_convertor_t convertor;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int error = opal_convertor_copy_and_prepare_for_recv(
        ompi_mpi_local_convertor, &b->type->super, b->count, b->address, 0, &convertor);
    if (error == OPAL_SUCCESS)
        error = convert(&convertor, opal_convertor_unpack, (void *)from, bytes);
    OBJ_DESTRUCT(&convertor);
    return error;
}

int smartmap_convert(const struct buffer *from, const struct buffer *to)
{
    return ompi_datatype_sndrcv(from->address, (int32_t)from->count, from->type, to->address,
                                (int32_t)to->count, to->type);
}

int smartmap_combine(port_op_t op, const void *a, void *target, size_t count, port_type_t type)
{
    ompi_op_reduce(op, (void *)a, target, count, type);
    return MPI_SUCCESS;
}

int smartmap_combine_three(port_op_t op, const void *a, const void *b, void *target,
                           size_t count, port_type_t type)
{
    if (!ompi_op_is_intrinsic(op) || !ompi_datatype_is_predefined(type))
        return NOT_SERVED;
    ompi_3buff_op_reduce(op, (void *)a, (void *)b, target, (int)count, type);
    return MPI_SUCCESS;
}
