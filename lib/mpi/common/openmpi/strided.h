/*
 * Data in blocks of one length at one distance: a column of a matrix, most faces
 * of a grid.  Open MPI's interpreter of datatypes takes 2 to 3 ns for each block
 * of 8 bytes; a loop that knows the length, a fraction of one.
 */
#ifndef SMARTMAP_COMMON_STRIDED_H
#define SMARTMAP_COMMON_STRIDED_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stddef.h>

#include "ompi/datatype/ompi_datatype.h"

struct strided {
    char *first; /* block */
    size_t block_bytes, blocks;
    ptrdiff_t distance; /* from the begin of one block to the next one's */
};

/** Is `count` times `type` at `address` such data?  Not data in one piece. */
bool strided_describe(struct strided *s, const void *address, size_t count, ompi_datatype_t *type);

/** To packed data, or from it: `bytes` of it from its position `at` on. */
void strided_pack(const struct strided *s, size_t at, char *to, size_t bytes);
void strided_unpack(const struct strided *s, size_t at, const char *from, size_t bytes);

/** Between data of which either may lie in one piece, all `bytes` of one of them; false: not by this way. */
struct layout {
    void *address;
    size_t count;
    ompi_datatype_t *type;
    char *piece; /* where it is in one piece, or NULL */
};
bool strided_move(const struct layout *to, const struct layout *from, size_t bytes);

#endif
