/*
 * Datatypes: how many bytes a buffer packs to, whether they lie in one piece,
 * and packing and unpacking by Open MPI's own convertors.
 */
#include "coll_smartmap.h"

#include <string.h>

#include "opal/datatype/opal_convertor.h"

size_t smartmap_packed_bytes(const struct buffer *b)
{
    size_t size;
    ompi_datatype_type_size(b->type, &size);
    return size * b->count;
}

/** If the data lies in one piece, `start` is its first byte. */
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

/** Pack a buffer whose packed size is `bytes`. */
int smartmap_pack(const struct buffer *b, void *to, size_t bytes)
{
    char *start;
    if (bytes == 0)
        return OMPI_SUCCESS;
    if (smartmap_is_contiguous(b, &start)) {
        memcpy(to, start, bytes);
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

/** Unpack `bytes` into a buffer; more than it holds is MPI_ERR_TRUNCATE. */
int smartmap_unpack(const struct buffer *b, const void *from, size_t bytes)
{
    char *start;
    size_t capacity = smartmap_packed_bytes(b);
    int truncated = bytes > capacity ? MPI_ERR_TRUNCATE : OMPI_SUCCESS;
    if (bytes > capacity)
        bytes = capacity;
    if (bytes == 0)
        return truncated;
    if (smartmap_is_contiguous(b, &start)) {
        memcpy(start, from, bytes);
        return truncated;
    }
    opal_convertor_t convertor;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int error = opal_convertor_copy_and_prepare_for_recv(
        ompi_mpi_local_convertor, &b->type->super, b->count, b->address, 0, &convertor);
    if (error == OPAL_SUCCESS)
        error = convert(&convertor, opal_convertor_unpack, (void *)from, bytes);
    OBJ_DESTRUCT(&convertor);
    return error != OMPI_SUCCESS ? error : truncated;
}
