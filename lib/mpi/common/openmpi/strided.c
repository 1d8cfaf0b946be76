#include "strided.h"

#include <string.h>

#include "opal/datatype/opal_datatype_internal.h"

/** What Open MPI has made of the type when it was committed: one run of blocks, or more than that. */
static bool is_one_run(const opal_datatype_t *type)
{
    return type->opt_desc.used == 1 && type->opt_desc.desc &&
           (type->opt_desc.desc[0].elem.common.flags & OPAL_DATATYPE_FLAG_DATA) != 0;
}

bool strided_describe(struct strided *s, const void *address, size_t count, ompi_datatype_t *type)
{
    if (!is_one_run(&type->super))
        return false;
    const ddt_elem_desc_t *run = &type->super.opt_desc.desc[0].elem;
    ptrdiff_t extent = type->super.ub - type->super.lb, blocks = (ptrdiff_t)run->count;
    *s = (struct strided){ .first = (char *)address + run->disp,
                           .block_bytes = run->blocklen * opal_datatype_basicDatatypes[run->common.type]->size,
                           .blocks = (size_t)blocks * count,
                           .distance = blocks > 1 ? run->extent : extent };
    /* Of several, each must begin where the one before it would go on. */
    return count == 1 || blocks == 1 || blocks * run->extent == extent;
}

/** `blocks` of them; a step is the distance from one to the next. */
static void copy_blocks(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step,
                        size_t block_bytes, size_t blocks)
{
#define COPY(bytes)                                                          \
    for (size_t i = 0; i < blocks; i++, to += to_step, from += from_step) \
        memcpy(to, from, bytes);                                             \
    break
    switch (block_bytes) { /* lengths that the compiler knows: no calls */
    case 4: COPY(4);
    case 8: COPY(8);
    case 12: COPY(12);
    case 16: COPY(16);
    case 24: COPY(24);
    case 32: COPY(32);
    default: COPY(block_bytes);
    }
#undef COPY
}

/** Between blocks and packed data, of which `at` may lie within a block, as the end may. */
static void move(const struct strided *s, size_t at, char *packed, size_t bytes, bool pack)
{
    char *block = s->first + (ptrdiff_t)(at / s->block_bytes) * s->distance;
    for (size_t begin = at % s->block_bytes; bytes > 0; begin = 0) {
        size_t left = s->block_bytes - begin, length = left < bytes ? left : bytes;
        size_t blocks = length == s->block_bytes ? bytes / length : 1;
        if (pack)
            copy_blocks(packed, (ptrdiff_t)length, block + begin, s->distance, length, blocks);
        else
            copy_blocks(block + begin, s->distance, packed, (ptrdiff_t)length, length, blocks);
        block += (ptrdiff_t)blocks * s->distance;
        packed += blocks * length;
        bytes -= blocks * length;
    }
}

void strided_pack(const struct strided *s, size_t at, char *to, size_t bytes)
{
    move(s, at, to, bytes, true);
}

void strided_unpack(const struct strided *s, size_t at, const char *from, size_t bytes)
{
    move(s, at, (char *)from, bytes, false);
}

bool strided_move(const struct layout *to, const struct layout *from, size_t bytes)
{
    struct strided target, source;
    if ((!to->piece && !strided_describe(&target, to->address, to->count, to->type)) ||
        (!from->piece && !strided_describe(&source, from->address, from->count, from->type)))
        return false;
    if (to->piece)
        strided_pack(&source, 0, to->piece, bytes);
    else if (from->piece)
        strided_unpack(&target, 0, from->piece, bytes);
    else if (target.block_bytes == source.block_bytes)
        copy_blocks(target.first, target.distance, source.first, source.distance,
                    target.block_bytes, bytes / target.block_bytes);
    else
        return false;
    return true;
}
