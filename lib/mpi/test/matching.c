/*
 * matching: the tables of pml/match.c against a list that is searched from its
 * beginning, under random receives and messages.
 */
#include "../pml/match.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 3000, STEPS = 40000 };

struct entry {
    struct match_item item;
    struct match_key key;
    int used;
    unsigned long turn;
};

static struct entry receives[MOST], messages[MOST];
static unsigned seed = 1;
static int failures;

static int draw(int limit) { return (int)(rand_r(&seed) % (unsigned)limit); }

static int fits(const struct match_key *receive, const struct match_key *message)
{
    return receive->communicator == message->communicator &&
           (receive->source == MATCH_ANY_SOURCE || receive->source == message->source) &&
           (receive->tag == message->tag ||
            (receive->tag == MATCH_ANY_TAG && message->tag >= 0));
}

static struct entry *earliest(struct entry *list, const struct match_key *key, int is_receive)
{
    struct entry *first = NULL;
    for (int i = 0; i < MOST; i++) {
        int fit = is_receive ? fits(key, &list[i].key) : fits(&list[i].key, key);
        if (list[i].used && fit && (!first || list[i].turn < first->turn))
            first = &list[i];
    }
    return first;
}

static struct entry *unused(struct entry *list)
{
    for (int tries = 0; tries < 50; tries++) {
        struct entry *e = &list[draw(MOST)];
        if (!e->used)
            return e;
    }
    return NULL;
}

static struct match_key draw_key(int is_receive, int tags)
{
    struct match_key key = { draw(3), draw(4), draw(tags) - 2 };
    if (is_receive && draw(4) == 0)
        key.source = MATCH_ANY_SOURCE;
    if (key.tag == MATCH_ANY_TAG || (is_receive && draw(4) == 0))
        key.tag = is_receive ? MATCH_ANY_TAG : 0;
    return key;
}

/** One arrival or one receive: match it, or add it. */
static void step(struct match_table *table, struct entry *list, const struct match_key *key,
                 int adds_receives, struct match_table *others, struct entry *other_list,
                 unsigned long turn)
{
    struct match_item *got =
        adds_receives ? match_message(others, key) : match_receive(others, key);
    struct entry *want = earliest(other_list, key, adds_receives);
    if (got != (want ? &want->item : NULL) && failures++ < 5)
        printf("matching: step %lu: another one than the list's\n", turn);
    if (got) {
        match_remove(others, got);
        ((struct entry *)got)->used = 0;
        return;
    }
    struct entry *e = unused(list);
    if (!e)
        return;
    *e = (struct entry){ .key = *key, .used = 1, .turn = turn, .item.key = *key };
    if (adds_receives)
        match_post(table, &e->item);
    else
        match_keep(table, &e->item);
}

static void empty(struct match_table *table, struct entry *list)
{
    for (int i = 0; i < MOST; i++)
        if (list[i].used) {
            match_remove(table, &list[i].item);
            list[i].used = 0;
        }
}

int main(void)
{
    struct match_table posted, kept;
    if (!match_start(&posted) || !match_start(&kept))
        return 1;
    for (unsigned long turn = 1; turn <= STEPS; turn++) {
        /* First a few items, then long queues, then many. */
        int tags = turn < STEPS / 4 ? 4 : turn < STEPS / 2 ? 8 : 2000;
        if (turn < STEPS / 4 && posted.items + kept.items > 3) {
            empty(&posted, receives);
            empty(&kept, messages);
        }
        int is_receive = draw(100) < (turn / 2000 % 2 ? 70 : 30);
        struct match_key key = draw_key(is_receive, tags);
        if (is_receive)
            step(&posted, receives, &key, 1, &kept, messages, turn);
        else
            step(&kept, messages, &key, 0, &posted, receives, turn);
    }
    match_stop(&posted);
    match_stop(&kept);
    printf("matching: %d steps: %d wrong\n", STEPS, failures);
    return failures != 0;
}
