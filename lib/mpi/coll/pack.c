/*
 * Packing: a plain copy of data in one piece, else the MPI's own way.
 */
#include "copy.h"
#include "team.h"

#include <string.h>

int smartmap_pack(const struct buffer *b, void *to, size_t bytes)
{
    char *start;
    if (bytes == 0)
        return MPI_SUCCESS;
    if (!smartmap_is_contiguous(b, &start))
        return smartmap_pack_scattered(b, to, bytes);
    memcpy(to, start, bytes);
    return MPI_SUCCESS;
}

int smartmap_unpack(const struct buffer *b, const void *from, size_t bytes, bool keep)
{
    char *start;
    size_t capacity = smartmap_packed_bytes(b);
    int error = MPI_SUCCESS, truncated = bytes > capacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    if (bytes > capacity)
        bytes = capacity;
    if (bytes == 0)
        return truncated;
    if (!smartmap_is_contiguous(b, &start))
        error = smartmap_unpack_scattered(b, from, bytes);
    else if (keep)
        copy_and_keep(start, from, bytes);
    else
        memcpy(start, from, bytes);
    return error != MPI_SUCCESS ? error : truncated;
}
