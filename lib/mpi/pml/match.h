/*
 * Matching of receives and messages in MPI's order (MPI 4.1, section 3.5), at a
 * cost that does not depend on how many of either wait.
 *
 * A table holds either posted receives or unexpected messages.  Four classes
 * select what of the key counts: communicator with source and tag, with tag only
 * (ANY_SOURCE), with source only (ANY_TAG), and neither.  A receive is in the
 * class of its wildcards; an arriving message is sought in each class and takes the
 * earliest receive.  An unexpected message is in all classes, so that a receive
 * takes from its own only.  What is met in the order of the table, as in most
 * programs, is never hashed: the rest is when something is not.  Nothing here
 * knows Open MPI.
 */
#ifndef PML_MATCH_H
#define PML_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MATCH_ANY_SOURCE = -1, MATCH_ANY_TAG = -1 }; /* MPI_ANY_* in Open MPI */

/** Bits of a class: what its key leaves open. */
enum { OPEN_SOURCE = 1, OPEN_TAG = 2, CLASSES = 4 };

struct match_key {
    int32_t communicator, source, tag;
};

struct match_link {
    struct match_item *next, *previous;
};

/** Embedded in a receive or a message. */
struct match_item {
    struct match_key key;
    uint8_t classes;              /* bit c: in class c, once it is hashed */
    bool hashed;
    uint64_t turn;                /* order of insertion */
    struct match_link in[CLASSES];
    struct match_link all;
};

struct match_list {
    struct match_item *first, *last;
};

struct match_table {
    struct match_list *buckets; /* CLASSES times `mask + 1` */
    size_t mask;
    size_t items;
    size_t in_class[CLASSES];
    struct match_item *unhashed; /* the first of them; those after it in `all` are, too */
    uint64_t turn;
    struct match_list all; /* in order of insertion */
};

/** Prepare an empty table; false: out of memory. */
bool match_start(struct match_table *t);
void match_stop(struct match_table *t);

/** Insert a receive, whose key may have wildcards. */
void match_post(struct match_table *t, struct match_item *receive);

/** Insert a message, whose key has none. */
void match_keep(struct match_table *t, struct match_item *message);

void match_remove(struct match_table *t, struct match_item *item);

/** The earliest receive that takes a message with this key, or NULL. */
struct match_item *match_receive(struct match_table *t, const struct match_key *key);

/** The earliest message that a receive with this key takes, or NULL. */
struct match_item *match_message(struct match_table *t, const struct match_key *key);

#endif
