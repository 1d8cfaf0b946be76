/* Copying what a peer reads next, and what comes before it. */
#ifndef SMARTMAP_COMMON_COPY_H
#define SMARTMAP_COMMON_COPY_H

#include "place.h"

#include <stddef.h>
#include <string.h>
#include <xmmintrin.h>

/**
 * Before a peer is notified of memory that it reads or writes in place: a program may have stored there past
 * its caches, and ordinary stores, ours that notify it, do not wait for that (Intel SDM vol. 1, 10.4.6.2).
 */
static inline void order_streamed(void)
{
    _mm_sfence();
}

/**
 * Into the cache before they are read or written; does not wait for them.  GCC leaves out
 * calls of functions that do nothing else.
 */
static inline __attribute__((always_inline)) void fetch_lines(const char *start, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(start + at);
}

/** Of at most `most` bytes: of more the processor fetches the next lines by itself. */
static inline __attribute__((always_inline)) void fetch_short(const char *start, size_t bytes, size_t most)
{
    if (bytes <= most)
        fetch_lines(start, bytes);
}

/**
 * So much of what others read in place is fetched by who only waits for them: if it
 * has left its cache, two cores fetch it instead of one.  More gains a bcast of 32 KiB
 * what it costs a scatter (docs/smartmap-mpi.md).
 */
enum { GIVEN_BYTES = 16384 };

/**
 * memcpy by pieces: from some MiB on glibc's writes past the caches, which
 * measured 4 to 5 times slower for 4 MiB that the receiver has in its cache.
 */
static inline void copy_in_pieces(char *to, const char *from, size_t bytes)
{
    enum { PIECE_BYTES = 512 << 10 };
    for (; bytes > PIECE_BYTES; bytes -= PIECE_BYTES, to += PIECE_BYTES, from += PIECE_BYTES)
        memcpy(to, from, PIECE_BYTES);
    memcpy(to, from, bytes);
}

/**
 * Store into each line what is there, so that it is ours alone: its owner, who writes it next,
 * gets it from one cache.  Lines that both have it calls back one by one (docs/adr/0038).
 */
static inline void keep_lines(const char *start, size_t bytes)
{
    volatile char *at = (volatile char *)start;
    for (size_t i = 0; i < bytes; i += LINE_BYTES)
        at[i] = at[i];
}

/** Copy, and keep the lines that were read, while they are in the first cache. */
static inline void copy_and_keep(char *to, const char *from, size_t bytes)
{
    enum { AT_ONCE = 8192 };
    for (size_t part; bytes > 0; bytes -= part, to += part, from += part) {
        part = bytes < AT_ONCE ? bytes : AT_ONCE;
        memcpy(to, from, part);
        keep_lines(from, part);
    }
}

#endif
