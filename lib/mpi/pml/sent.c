/*
 * What blocking calls have sent lately: has it changed since?  Data that has
 * not is likely to lie in its receiver's cache, who then copies it faster alone
 * than both in pieces (docs/adr/0038).  A wrong guess costs time, nothing else.
 */
#include "pml_smartmap.h"

#include <string.h>

enum { ENTRIES = 256, SAMPLES = 8 };

static struct sent {
    const char *start;
    size_t bytes;
    uint64_t sum;
} sent[ENTRIES];

static struct sent *entry_of(const char *start, size_t bytes)
{
    uintptr_t pages = (uintptr_t)start / PAGE_BYTES + bytes / PAGE_BYTES;
    return &sent[(pages ^ pages / ENTRIES) % ENTRIES];
}

/**
 * A sum of some words; not of the first or last, where programs put what they
 * check, or number their messages, in data that stays.
 */
static uint64_t sample(const char *start, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i < SAMPLES; i++) {
        memcpy(&word, start + bytes / SAMPLES * i + bytes / SAMPLES / 2, sizeof word);
        sum = sum * 31 + word;
    }
    return sum;
}

/** Under the lock: is this, long data, what was sent from there last time? */
bool sent_unchanged(const char *start, size_t bytes)
{
    struct sent *s = entry_of(start, bytes), now = { start, bytes, sample(start, bytes) };
    bool same = s->start == start && s->bytes == bytes && s->sum == now.sum;
    *s = now;
    return same;
}

/** Under the lock: a message has been received there, and may be sent on. */
void sent_overwritten(const char *start, size_t bytes)
{
    struct sent *s = entry_of(start, bytes);
    if (s->start == start && s->bytes == bytes)
        s->start = NULL;
}
