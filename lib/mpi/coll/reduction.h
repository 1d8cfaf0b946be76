/*
 * What all reductions share (reduction.c).  Operands stay where they are, in the
 * layout of their datatype, and whoever needs a result folds the ranks' operands
 * straight from their memory:
 *
 *     x0 op (x1 op (... op xn-1))
 *
 * always in rank order and always with this association, so non-commutative
 * operations are right and results are the same bits from run to run, for
 * every message size and on every rank.
 */
#ifndef COLL_SMARTMAP_REDUCTION_H
#define COLL_SMARTMAP_REDUCTION_H

#include "team.h"

/** One reduction as one rank sees it. */
struct reduction {
    struct team *t;
    port_type_t type;
    port_op_t op;
    size_t count;
    struct shape shape; /* of an element */
    ptrdiff_t gap;      /* from a buffer's address to its first byte */
    size_t span;        /* bytes from first to last */
    bool small;         /* operands travel in the slots */
    struct slot *slot;
    void *temporary;
    bool held;
    struct entry given; /* our operand, if it is read in place; else empty */
    bool fresh;   /* it is, and all peers' whose slots were read: slot.fresh */
    bool divided; /* each rank folds a piece: where one fails, all do */
    bool keeps;   /* no other rank reads what we fold: lines of fresh operands are kept */
    bool kept[SMARTMAP_MAX_RANKS]; /* whose they are, of those that were collected */
    const char *operand[SMARTMAP_MAX_RANKS];
    void *fetched[SMARTMAP_MAX_RANKS]; /* copies of far operands; NULL: none */
};

/** False: another component must do it. */
bool reduction_start(struct reduction *d, struct team *t, size_t count,
                     port_type_t type, port_op_t op);
size_t reduction_span(const struct reduction *d, size_t count);
int reduction_copy(const struct reduction *d, size_t count, void *to, const void *from);
int reduction_post(struct reduction *d, const void *operand, const void *result);
int reduction_collect(struct reduction *d, int first, int last);
int reduction_fold(const struct reduction *d, int first, int last, size_t from,
                   size_t count, char *to);
int reduction_finish(struct reduction *d, int error, int reader);

#endif
