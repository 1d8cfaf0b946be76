// What the actors of files.c do in a step: it comes of the seed, so each knows what all have done.
#ifndef MARGAY_FILES_H
#define MARGAY_FILES_H

#include "../common/check.h"

enum { PAGES = 64, BYTES = PAGES * PAGE_BYTES, SLOT_BYTES = 64, SLOT_WORDS = SLOT_BYTES / 8, WRITES = 6, MOST_ACTORS = 40 };
// Of so many steps one makes the file longer or shorter: the second in any case, and not the first.
enum { RESIZE_EVERY = 4 };

static uint64_t seed;
static unsigned actors;

// The file: bytes behind its end are 0.
static struct {
    uint64_t len;
    unsigned char bytes[BYTES];
} model;

// Steele, Lea and Flood, Fast splittable pseudorandom number generators (OOPSLA 2014), figure 14.
static uint64_t mixed(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

static uint64_t chosen(uint64_t step, uint64_t actor, uint64_t what, uint64_t below)
{
    return mixed(mixed(mixed(mixed(seed + 1) + step) + actor) + what) % below;
}

// ---- Slots are written ------------------------------------------------------

enum how { STORED, STORED_AND_SYNCED, STORED_ELSEWHERE, WRITTEN, WRITTEN_AND_SYNCED, HOWS };
struct write {
    enum how how;
    uint64_t at;
    uint64_t words[SLOT_WORDS];
};

// The `number`th of an actor in a step, to a slot that is its own for this step; 0: there is none.
static int write_of(uint64_t step, unsigned actor, uint64_t number, struct write *write)
{
    uint64_t slots = model.len / SLOT_BYTES, first = (actor + step) % actors;
    if (first >= slots)
        return 0;
    uint64_t own = (slots - first + actors - 1) / actors;
    write->at = (first + actors * chosen(step, actor, 3 * number, own)) * SLOT_BYTES;
    write->how = (enum how)chosen(step, actor, 3 * number + 1, HOWS);
    for (uint64_t word = 0; word < SLOT_WORDS; word++)
        write->words[word] = chosen(step, actor, 3 * number + 2, UINT32_MAX) << 8 | word;
    return 1;
}

// ---- The file changes its length ----------------------------------------------

enum resize { CUT, EMPTIED, PUNCHED, GROWN, RESIZES };
struct change {
    enum resize how;
    unsigned actor;
    uint64_t from, len;
};

static int is_resize(uint64_t step) { return step == 1 || (step > 1 && chosen(step, MOST_ACTORS, 0, RESIZE_EVERY) == 0); }

static struct change change_of(uint64_t step)
{
    struct change change = {
        .how = (enum resize)chosen(step, MOST_ACTORS, 1, RESIZES),
        .actor = (unsigned)chosen(step, MOST_ACTORS, 2, actors),
        .from = chosen(step, MOST_ACTORS, 3, PAGES) * PAGE_BYTES,
        .len = chosen(step, MOST_ACTORS, 4, BYTES + 1),
    };
    if (change.how == GROWN)
        change.len = model.len + change.len % (BYTES - model.len + 1);
    return change;
}

// ---- The model ------------------------------------------------------------------

static void take(const struct change *change)
{
    uint64_t from = change->len, end = BYTES;
    switch (change->how) {
    case EMPTIED: from = 0; break;
    case PUNCHED: from = change->from, end = from + PAGE_BYTES; break;
    default: break;
    }
    if (change->how != PUNCHED)
        model.len = change->len;
    if (from < end)
        memset(model.bytes + from, 0, end - from);
}

static void take_writes(uint64_t step)
{
    for (unsigned actor = 0; actor < actors; actor++)
        for (uint64_t number = 0; number < WRITES; number++) {
            struct write write;
            if (write_of(step, actor, number, &write))
                memcpy(model.bytes + write.at, write.words, SLOT_BYTES);
        }
}

#endif
