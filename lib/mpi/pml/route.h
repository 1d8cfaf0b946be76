/*
 * The route of a message: which way its data goes.
 *
 * Its sender chooses one, by `route`, and names it in the message's line; its receiver does what is named there.
 * So both sides agree, whatever the choice was made of.  Nothing of Open MPI in it: test/route.c holds a table
 * against it.  Why each message goes where it does: docs/adr/0038, 0039.
 */
#ifndef SMARTMAP_PML_ROUTE_H
#define SMARTMAP_PML_ROUTE_H

#include "place.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LINE_DATA_BYTES = 48,
    SHORT_LINES = 4,
    SHORT_BYTES = LINE_DATA_BYTES + (SHORT_LINES - 1) * LINE_BYTES,
    FIRST_BYTES = 4096,  /* so much of medium data that is not offered is there with its line if the rest follows, */
    FOLLOW_BYTES = 8192, /* in parts of so much */
    OFFERED_LEAST_BYTES = 4096, /* of medium data that its receiver may copy from where it lies, */
    OFFERED_PART_BYTES = 2048,  /* until all such parts are in the ring */
    HEAD_BYTES = 8192, /* of long data that goes in pieces: the receiver copies it while the sender starts with these */
};

enum route {
    ROUTE_NONE,        /* of lines that begin no message */
    ROUTE_LINES,       /* short: in the line, and in up to three that follow it */
    ROUTE_RING,        /* medium: in the ring of bytes */
    ROUTE_FOLLOWS,     /* medium: FIRST_BYTES are in the ring of bytes, the rest is being written */
    ROUTE_OFFERED,     /* medium: all is being written; a receiver that waits may copy it from its address instead */
    ROUTE_SELF,        /* long, from this process: copied from its address */
    ROUTE_WINDOW,      /* long: its receiver copies it from its address, through the window, */
    ROUTE_WINDOW_KEEP, /* and keeps its lines */
    ROUTE_BOTH,        /* long: its head is in the ring of bytes.  A receiver that waits gets the rest in pieces, another copies it, */
    ROUTE_BOTH_KEEP,   /* and keeps its lines */
    ROUTE_LINUX,       /* long: its receiver reads it from its address through Linux */
    ROUTE_PIECES,      /* long: what there is room for of its head is in the ring of bytes, the rest comes in pieces */
    ROUTES,
};

/** What decides: a message as its sender knows it, and the channel. */
struct message {
    size_t bytes;
    bool is_long;    /* more than medium_bytes */
    bool contiguous; /* its data lies in one piece */
    bool answered;   /* synchronous: its sender waits for DONE */
    bool adjoins;    /* the lines for short data lie one after the other */
    bool blocking;   /* its sender waits until it is sent */
    bool to_self;
    bool crowded;    /* processes share CPUs: no side waits for the other in the middle */
    bool in_stream;  /* nothing has come from its receiver since the message before */
    bool head_fits;  /* the ring of bytes has room for the head */
    bool far;        /* the ring of bytes is filled past the caches now (stores.c) */
    bool timed;      /* what is written into the ring of bytes now is timed, so it is written at once */
    bool measured;   /* goes through the ring of bytes, so that there is something to time */
    /* Where its data lies, if it lies in one piece: see route_depends_on_place. */
    bool in_window;  /* its receiver reaches it */
    bool unchanged;  /* since it was sent last; only where it is in the window */
    bool may_keep;   /* its receiver may store what it has read there */
};

/** Does it go in lines?  As `route` has it, but before anything else is known. */
static inline bool route_in_lines(size_t bytes, bool answered, bool adjoins)
{
    return bytes <= SHORT_BYTES && !answered && adjoins;
}

/** May medium data be offered, if it has not changed?  A stream's sender would wait for each copy. */
static inline bool route_may_offer(const struct message *m)
{
    return m->contiguous && m->bytes >= OFFERED_LEAST_BYTES && !m->crowded && !m->to_self && !m->in_stream;
}

/** Is it worth finding out where its data lies?  Else the route is the same, whatever that is. */
static inline bool route_depends_on_place(const struct message *m)
{
    return m->is_long ? m->contiguous && !m->to_self : route_may_offer(m);
}

/** Is it worth looking for room for the head of long data?  Else its route has none. */
static inline bool route_may_have_head(const struct message *m)
{
    return m->blocking || !m->contiguous;
}

static inline enum route route_medium(const struct message *m)
{
    if (route_may_offer(m) && m->in_window && m->unchanged && !m->measured)
        return ROUTE_OFFERED;
    bool follows = m->contiguous && m->bytes > FOLLOW_BYTES && !m->crowded && !m->timed;
    return follows ? ROUTE_FOLLOWS : ROUTE_RING;
}

static inline enum route route_long(const struct message *m)
{
    if (!m->contiguous)
        return ROUTE_PIECES;
    if (m->to_self)
        return ROUTE_SELF;
    bool waits = m->blocking && !m->crowded;
    if (!m->in_window)
        return waits ? ROUTE_PIECES : ROUTE_LINUX;
    bool keep = m->may_keep && !m->unchanged && !m->crowded;
    /* While its sender waits, both copying is faster than a copy without keeping, and far also than one that keeps. */
    if (waits && !m->unchanged && m->head_fits && (!m->may_keep || m->far || m->measured))
        return keep ? ROUTE_BOTH_KEEP : ROUTE_BOTH;
    return keep ? ROUTE_WINDOW_KEEP : ROUTE_WINDOW;
}

static inline enum route route(const struct message *m)
{
    if (route_in_lines(m->bytes, m->answered, m->adjoins))
        return ROUTE_LINES;
    return m->is_long ? route_long(m) : route_medium(m);
}

static inline bool route_is_long(enum route way)
{
    return way >= ROUTE_SELF;
}

static inline bool route_has_head(enum route way)
{
    return way == ROUTE_BOTH || way == ROUTE_BOTH_KEEP || way == ROUTE_PIECES;
}

/** Is there an address in the line? */
static inline bool route_has_address(enum route way)
{
    return way >= ROUTE_OFFERED && way != ROUTE_PIECES;
}

static inline bool route_keeps(enum route way)
{
    return way == ROUTE_WINDOW_KEEP || way == ROUTE_BOTH_KEEP;
}

/** How many of so many bytes, short or medium, are there with the line. */
static inline size_t route_first(enum route way, size_t bytes)
{
    return way == ROUTE_OFFERED ? 0 : way == ROUTE_FOLLOWS ? FIRST_BYTES : bytes;
}

/** Does the rest come in pieces?  A receiver that does not wait may compute next, and they would not come. */
static inline bool route_in_pieces(enum route way, bool receiver_waits)
{
    return way == ROUTE_PIECES || (receiver_waits && route_has_head(way));
}

/** Can a line name this route, with these sizes?  What no sender writes is refused. */
static inline bool route_is_possible(unsigned way, bool from_self, size_t bytes, size_t head, uint64_t address,
                                     size_t medium_bytes)
{
    bool is_medium = bytes <= medium_bytes && head == 0, is_long = bytes > medium_bytes;
    bool has_head = head > 0 && head <= HEAD_BYTES && head <= bytes;
    if (way == ROUTE_RING)
        return is_medium && address == 0;
    switch (way) {
    case ROUTE_LINES: return bytes <= SHORT_BYTES;
    case ROUTE_FOLLOWS: return is_medium && bytes > FOLLOW_BYTES && address == 0;
    case ROUTE_OFFERED: return is_medium && bytes >= OFFERED_LEAST_BYTES && address != 0 && !from_self;
    case ROUTE_SELF: return is_long && head == 0 && address != 0 && from_self;
    case ROUTE_WINDOW:
    case ROUTE_WINDOW_KEEP:
    case ROUTE_LINUX: return is_long && head == 0 && address != 0 && !from_self;
    case ROUTE_BOTH:
    case ROUTE_BOTH_KEEP: return is_long && has_head && address != 0 && !from_self;
    case ROUTE_PIECES: return is_long && (has_head || head == 0) && address == 0;
    default: return false;
    }
}

#endif
