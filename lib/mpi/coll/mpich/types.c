/*
 * Datatypes and operations by MPI's own calls.  How a datatype lies in memory is
 * kept until it is freed: asking costs more than a short collective.
 */
#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "handles.h"
#include "ops.h"

enum { PART_BYTES = 1 << 30 }; /* PMPI_Pack counts in int */

struct facts {
    size_t size;
    bool plain; /* packing leaves an element as it is */
    enum kind kind;
    struct shape shape;
};

struct kept {
    struct handle handle;
    struct facts facts;
};

static struct handles all = HANDLES_INITIALIZER;

static int freed(MPI_Datatype type, int keyval, void *value, void *extra)
{
    handles_remove(&all, value);
    return MPI_SUCCESS;
}

/** Where nodes are made, so that all threads use one. */
static int keyval(void)
{
    static int known = MPI_KEYVAL_INVALID;
    if (known == MPI_KEYVAL_INVALID)
        real.Type_create_keyval(MPI_TYPE_NULL_COPY_FN, freed, &known, NULL);
    return known;
}

/** Does packing move no byte?  Tried with all digits of the bytes' numbers, base 256. */
static bool try_packing(MPI_Datatype type, size_t size, ptrdiff_t true_lb)
{
    unsigned char *from = malloc(size), *to = malloc(size);
    bool same = from && to;
    for (size_t digit = 1; same && (digit == 1 || digit < size); digit *= 256) {
        int position = 0;
        for (size_t i = 0; i < size; i++)
            from[i] = (unsigned char)(i / digit);
        same = real.Pack(from - true_lb, 1, type, to, (int)size, &position, MPI_COMM_SELF) ==
                   MPI_SUCCESS &&
               (size_t)position == size && memcmp(from, to, size) == 0;
    }
    free(from);
    free(to);
    return same;
}

/** A datatype is seen for the first time. */
static bool look_at(MPI_Datatype type, struct facts *facts)
{
    MPI_Count size, lb, extent, true_lb, true_extent;
    if (real.Type_size_x(type, &size) != MPI_SUCCESS ||
        real.Type_get_extent_x(type, &lb, &extent) != MPI_SUCCESS ||
        real.Type_get_true_extent_x(type, &true_lb, &true_extent) != MPI_SUCCESS)
        return false;
    facts->size = (size_t)size;
    facts->plain = size == true_extent && size > 0 && size <= PART_BYTES &&
                   try_packing(type, facts->size, true_lb);
    facts->kind = ops_kind(type);
    facts->shape = (struct shape){ extent, true_lb, true_extent,
                                   .dense = facts->plain && extent == size };
    return true;
}

static const struct facts *keep(MPI_Datatype type, const struct facts *facts)
{
    pthread_mutex_lock(&all.making);
    struct kept *kept = (struct kept *)handles_search(&all, type);
    if (!kept) {
        kept = (struct kept *)handles_take(&all, sizeof *kept);
        if (!kept)
            smartmap_abort(MPI_COMM_WORLD);
        kept->facts = *facts;
        if (real.Type_set_attr(type, keyval(), kept) != MPI_SUCCESS)
            smartmap_abort(MPI_COMM_WORLD); /* we would not learn when it is freed */
        handles_add(&all, &kept->handle, type);
    }
    pthread_mutex_unlock(&all.making);
    return &kept->facts;
}

/** What is known of `type`; of one that is none, nothing, and the MPI has said so. */
static const struct facts *known(MPI_Datatype type)
{
    static const struct facts none;
    struct facts facts = { 0 };
    struct kept *kept = (struct kept *)handles_find(&all, type);
    if (likely(kept != NULL))
        return &kept->facts;
    return look_at(type, &facts) ? keep(type, &facts) : &none;
}

struct shape smartmap_shape(port_type_t type)
{
    return known(type)->shape;
}

size_t smartmap_packed_bytes(const struct buffer *b)
{
    return known(b->type)->size * b->count;
}

bool smartmap_is_contiguous(const struct buffer *b, char **start)
{
    const struct facts *k = known(b->type);
    *start = (char *)b->address + k->shape.true_lb;
    return k->shape.dense || (k->plain && b->count < 2);
}

/** So many elements at a time that PMPI_Pack can count their bytes; 0: not even one. */
static size_t at_a_time(const struct facts *k)
{
    return k->size > 0 ? PART_BYTES / k->size : PART_BYTES;
}

int smartmap_pack_scattered(const struct buffer *b, void *to, size_t bytes)
{
    const struct facts *k = known(b->type);
    char *at = to;
    size_t part = at_a_time(k);
    if (part == 0)
        return MPI_ERR_COUNT;
    for (size_t i = 0; i < b->count; i += part) {
        int count = (int)(b->count - i < part ? b->count - i : part), position = 0;
        const char *from = (const char *)b->address + (ptrdiff_t)i * k->shape.extent;
        int error = real.Pack(from, count, b->type, at, (int)((size_t)count * k->size),
                              &position, MPI_COMM_SELF);
        if (error != MPI_SUCCESS)
            return error;
        at += (size_t)count * k->size;
    }
    return MPI_SUCCESS;
}

int smartmap_unpack_scattered(const struct buffer *b, const void *from, size_t bytes)
{
    const struct facts *k = known(b->type);
    const char *at = from;
    size_t part = at_a_time(k), elements = bytes / k->size;
    if (part == 0)
        return MPI_ERR_COUNT;
    for (size_t i = 0; i < elements; i += part) {
        int count = (int)(elements - i < part ? elements - i : part), position = 0;
        char *to = (char *)b->address + (ptrdiff_t)i * k->shape.extent;
        int error = real.Unpack(at, (int)((size_t)count * k->size), &position, to, count,
                                b->type, MPI_COMM_SELF);
        if (error != MPI_SUCCESS)
            return error;
        at += (size_t)count * k->size;
    }
    return MPI_SUCCESS;
}

int smartmap_convert(const struct buffer *from, const struct buffer *to)
{
    size_t bytes = smartmap_packed_bytes(from);
    void *packed = malloc(bytes);
    int error = packed || bytes == 0 ? smartmap_pack(from, packed, bytes) : MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = smartmap_unpack(to, packed, bytes, false);
    free(packed);
    return error;
}

int smartmap_combine(port_op_t op, const void *a, void *target, size_t count, port_type_t type)
{
    ops_fold *fold = ops_find(op, known(type)->kind);
    if (!fold)
        return real.Reduce_local(a, target, (int)count, type, op);
    fold(a, target, target, count);
    return MPI_SUCCESS;
}

int smartmap_combine_three(port_op_t op, const void *a, const void *b, void *target,
                           size_t count, port_type_t type)
{
    ops_fold *fold = ops_find(op, known(type)->kind);
    if (!fold)
        return NOT_SERVED;
    fold(a, b, target, count);
    return MPI_SUCCESS;
}
