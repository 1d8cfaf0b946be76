/*
 * Hash tables of posted receives and unexpected messages; see match.h.
 */
#include "match.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 64 };

static unsigned class_of(const struct match_key *key)
{
    return (key->source == MATCH_ANY_SOURCE ? OPEN_SOURCE : 0) |
           (key->tag == MATCH_ANY_TAG ? OPEN_TAG : 0);
}

static bool same_key(unsigned class, const struct match_key *a, const struct match_key *b)
{
    return a->communicator == b->communicator &&
           (class & OPEN_SOURCE || a->source == b->source) &&
           (class & OPEN_TAG || a->tag == b->tag);
}

static struct match_list *bucket_of(const struct match_table *t, unsigned class,
                                    const struct match_key *key)
{
    uint64_t word = (uint64_t)(uint32_t)key->communicator << 48;
    if (!(class & OPEN_SOURCE))
        word ^= (uint64_t)(uint32_t)key->source << 32;
    if (!(class & OPEN_TAG))
        word ^= (uint32_t)key->tag;
    /* Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4. */
    size_t hash = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    return &t->buckets[class * (t->mask + 1) + (hash & t->mask)];
}

static void append(struct match_list *list, struct match_item *item, size_t link_offset)
{
    struct match_link *link = (struct match_link *)((char *)item + link_offset);
    link->next = NULL;
    link->previous = list->last;
    if (list->last)
        ((struct match_link *)((char *)list->last + link_offset))->next = item;
    else
        list->first = item;
    list->last = item;
}

static void detach(struct match_list *list, struct match_item *item, size_t link_offset)
{
    struct match_link *link = (struct match_link *)((char *)item + link_offset);
    if (link->previous)
        ((struct match_link *)((char *)link->previous + link_offset))->next = link->next;
    else
        list->first = link->next;
    if (link->next)
        ((struct match_link *)((char *)link->next + link_offset))->previous = link->previous;
    else
        list->last = link->previous;
}

static size_t link_in(unsigned class)
{
    return offsetof(struct match_item, in) + class * sizeof(struct match_link);
}

static void link_classes(struct match_table *t, struct match_item *item)
{
    for (unsigned class = 0; class < CLASSES; class++)
        if (item->classes >> class & 1)
            append(bucket_of(t, class, &item->key), item, link_in(class));
}

/** Twice the buckets; where memory is short the lists grow longer instead. */
static void grow(struct match_table *t)
{
    size_t buckets = 2 * (t->mask + 1);
    struct match_list *more = calloc(CLASSES * buckets, sizeof *more);
    if (!more)
        return;
    free(t->buckets);
    t->buckets = more;
    t->mask = buckets - 1;
    for (struct match_item *item = t->all.first; item != t->unhashed; item = item->all.next)
        link_classes(t, item);
}

static void hash_all(struct match_table *t)
{
    for (struct match_item *item = t->unhashed; item; item = item->all.next) {
        if (t->items > t->mask)
            grow(t);
        link_classes(t, item);
        for (unsigned class = 0; class < CLASSES; class++)
            t->in_class[class] += item->classes >> class & 1;
        item->hashed = true;
        t->unhashed = item->all.next;
    }
}

static void insert(struct match_table *t, struct match_item *item, unsigned classes)
{
    item->classes = (uint8_t)classes;
    item->hashed = false;
    item->turn = ++t->turn;
    append(&t->all, item, offsetof(struct match_item, all));
    t->items++;
    if (!t->unhashed)
        t->unhashed = item;
}

bool match_start(struct match_table *t)
{
    *t = (struct match_table){ .mask = FIRST_BUCKETS - 1 };
    t->buckets = calloc((size_t)CLASSES * FIRST_BUCKETS, sizeof *t->buckets);
    return t->buckets != NULL;
}

void match_stop(struct match_table *t)
{
    free(t->buckets);
    t->buckets = NULL;
}

void match_post(struct match_table *t, struct match_item *receive)
{
    insert(t, receive, 1U << class_of(&receive->key));
}

/** ANY_TAG stands for the tags of users, which are not negative. */
static unsigned classes_of_message(const struct match_key *key)
{
    unsigned with_tag = 1U << 0 | 1U << OPEN_SOURCE;
    return key->tag < 0 ? with_tag : with_tag | with_tag << OPEN_TAG;
}

void match_keep(struct match_table *t, struct match_item *message)
{
    insert(t, message, classes_of_message(&message->key));
}

void match_remove(struct match_table *t, struct match_item *item)
{
    if (t->unhashed == item)
        t->unhashed = item->all.next;
    detach(&t->all, item, offsetof(struct match_item, all));
    t->items--;
    if (!item->hashed)
        return;
    for (unsigned class = 0; class < CLASSES; class++)
        if (item->classes >> class & 1) {
            detach(bucket_of(t, class, &item->key), item, link_in(class));
            t->in_class[class]--;
        }
}

static bool takes(const struct match_key *receive, const struct match_key *message)
{
    unsigned class = class_of(receive);
    return classes_of_message(message) >> class & 1 && same_key(class, receive, message);
}

static struct match_item *first_in_class(const struct match_table *t, unsigned class,
                                         const struct match_key *key)
{
    struct match_item *item = bucket_of(t, class, key)->first;
    while (item && !same_key(class, &item->key, key))
        item = item->in[class].next;
    return item;
}

struct match_item *match_receive(struct match_table *t, const struct match_key *key)
{
    struct match_item *first = t->all.first;
    if (!first || takes(&first->key, key))
        return first;
    hash_all(t);
    first = NULL;
    unsigned classes = classes_of_message(key);
    for (unsigned class = 0; class < CLASSES; class++) {
        if (t->in_class[class] == 0 || !(classes >> class & 1))
            continue;
        struct match_item *item = first_in_class(t, class, key);
        if (item && (!first || item->turn < first->turn))
            first = item;
    }
    return first;
}

struct match_item *match_message(struct match_table *t, const struct match_key *key)
{
    struct match_item *first = t->all.first;
    if (!first || takes(key, &first->key))
        return first;
    hash_all(t);
    unsigned class = class_of(key);
    return t->in_class[class] == 0 ? NULL : first_in_class(t, class, key);
}
