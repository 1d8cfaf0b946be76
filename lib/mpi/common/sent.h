/*
 * What has been sent lately: has it changed since?  Data that has not is likely
 * to lie in its receiver's cache, who then copies it faster alone than by way of
 * a third place (docs/adr/0039).  A wrong guess costs time, nothing else.
 */
#ifndef SMARTMAP_COMMON_SENT_H
#define SMARTMAP_COMMON_SENT_H

#include "place.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SENT_ENTRIES = 256 /* a power of two */, SENT_SAMPLES = 8 };

/** Without a lock of its own. */
struct sent_log {
    struct sent {
        const char *start;
        size_t bytes;
        uint64_t sum;
        bool changed; /* it was not what had been sent from that page before */
    } entry[SENT_ENTRIES];
};

static inline uintptr_t sent_page(const char *start)
{
    return (uintptr_t)start / PAGE_BYTES;
}

/** By pages, for pieces that a program makes anew may be of other lengths. */
static inline struct sent *sent_entry(struct sent_log *log, const char *start)
{
    return &log->entry[(sent_page(start) * 0x9e3779b97f4a7c15) >> 32 & (SENT_ENTRIES - 1)]; /* Fibonacci hashing */
}

/**
 * A sum of some words; not of the first or last, where programs put what they
 * check, or number their messages, in data that stays.
 */
static inline uint64_t sent_sample(const char *start, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i < SENT_SAMPLES; i++) {
        memcpy(&word, start + bytes / SENT_SAMPLES * i + bytes / SENT_SAMPLES / 2, sizeof word);
        sum = sum * 31 + word;
    }
    return sum;
}

/** To be called whenever data, of 128 bytes or more, is sent: is it what was sent from there last time? */
static inline bool sent_unchanged(struct sent_log *log, const char *start, size_t bytes)
{
    struct sent *s = sent_entry(log, start);
    uint64_t sum = sent_sample(start, bytes);
    bool same = s->start == start && s->bytes == bytes && s->sum == sum;
    *s = (struct sent){ start, bytes, sum, !same && sent_page(s->start) == sent_page(start) };
    return same;
}

/** Had it changed when something was sent from there last?  Then it has probably now. */
static inline bool sent_changes(struct sent_log *log, const char *start)
{
    const struct sent *s = sent_entry(log, start);
    return sent_page(s->start) == sent_page(start) && s->changed;
}

/** A message has been received there, and may be sent on. */
static inline void sent_overwritten(struct sent_log *log, const char *start, size_t bytes)
{
    struct sent *s = sent_entry(log, start);
    if (s->start == start && s->bytes == bytes)
        s->start = NULL;
}

#endif
