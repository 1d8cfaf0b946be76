/*
 * Messages into channels: the route of each, and what goes into lines and the ring of bytes for it.
 */
#include "copy.h"
#include "exposed.h"
#include "pml_smartmap.h"

#include <string.h>

static void address_line(struct line *l, enum route way, const struct comm *c, int tag)
{
    l->tag = tag;
    l->communicator = c->id;
    l->source = c->rank;
    line_name(l, LINE_MESSAGE, way);
}

/*
 * The receiver polls a line all the time, which takes it from us.  So a line is
 * written at the end, and at once: between its first store and its last none goes elsewhere.
 */

/** Data that lies in lines, the others before the first. */
static void write_short(struct peer *p, struct line *l, const struct comm *c, int tag,
                        const char *start, size_t bytes, struct request *r)
{
    char packed[SHORT_BYTES];
    if (OPAL_UNLIKELY(!start)) {
        if (bytes > 0)
            request_pack(r, packed, bytes, 0);
        start = packed;
    }
    if (bytes > LINE_DATA_BYTES)
        memcpy(l + 1, start + LINE_DATA_BYTES, bytes - LINE_DATA_BYTES);
    memcpy(l->data, start, bytes < LINE_DATA_BYTES ? bytes : LINE_DATA_BYTES);
    l->short_bytes = (uint8_t)bytes;
    address_line(l, ROUTE_LINES, c, tag);
    channel_post(&p->out, l, short_lines(bytes), 0);
}

/** Has nothing come from its receiver since the last such message? */
static bool is_in_stream(struct peer *p)
{
    bool in_stream = p->in.line == p->lines_met;
    p->lines_met = p->in.line;
    return in_stream;
}

/** What costs time to find out, where the route depends on it. */
static inline void find_place(struct message *m, const char *start)
{
    m->in_window = smartmap_exports(start, m->bytes);
    m->unchanged = m->in_window && sent_unchanged(&job.sent, start, m->bytes);
    m->may_keep = m->is_long && smartmap_keeps() && !smartmap_exposes();
}

/** The route of a message that is not short.  Some of those that need not go through the ring of bytes do, to be measured. */
static inline __attribute__((always_inline)) enum route choose_route(struct peer *p, struct message *m, const char *start)
{
    if (!route_depends_on_place(m))
        return route(m);
    find_place(m, start);
    enum route way = route(m);
    m->measured = true;
    enum route in_ring = route(m);
    return way != in_ring && stores_take_turn(p) ? in_ring : way;
}

/** Its receiver copies what was offered: until it has done so, or died. */
static void await_copied(struct peer *p)
{
    for (unsigned polls = 1; !channel_is_copied(&p->out) && !job_is_dead(p, polls); polls++)
        ;
}

static bool write_medium(struct peer *p, struct line *l, const struct comm *c, int tag,
                         const char *start, size_t bytes, struct request *r, uint64_t sender)
{
    char *to = channel_message_room(&p->out, bytes);
    if (!to)
        return false;
    struct message m = { .bytes = bytes, .contiguous = start != NULL, .answered = sender != 0, .adjoins = false };
    if (bytes >= OFFERED_LEAST_BYTES) { /* less has one route */
        m.to_self = p == &job.peer[job.self];
        m.crowded = job.crowded;
        m.in_stream = is_in_stream(p);
        m.timed = stores_are_timed(&p->out, bytes);
    }
    enum route way = choose_route(p, &m, start);
    unsigned stores = start && way != ROUTE_OFFERED ? stores_choose(&p->out, bytes) : 0;
    size_t first = route_first(way, bytes);
    uint64_t began = stores_begin(stores);
    if (OPAL_LIKELY(start != NULL))
        stores_copy(to, start, first, stores);
    else if (bytes > 0)
        request_pack(r, to, bytes, 0);
    l->bytes = bytes;
    l->sender = sender;
    l->address = route_has_address(way) ? (uint64_t)start : 0;
    if (route_has_address(way))
        order_streamed();
    l->stores = (uint8_t)stores;
    address_line(l, way, c, tag);
    channel_post(&p->out, l, 1, bytes);
    size_t part = way == ROUTE_OFFERED ? OFFERED_PART_BYTES : FOLLOW_BYTES;
    if (first < bytes && !channel_follow(&p->out, to + first, start + first, bytes - first, part, stores))
        await_copied(p);
    stores_written(&p->out, bytes, stores, began);
    return true;
}

/**
 * Write a message of at most `medium_bytes`; false: no room.  The data is at
 * `start`, or else `r` packs it.  `sender` is the request that wants DONE, or 0.
 */
bool write_data(struct peer *p, const struct comm *c, int tag, const char *start, size_t bytes, struct request *r,
                uint64_t sender)
{
    bool in_lines = route_in_lines(bytes, sender != 0, channel_adjoins(&p->out, short_lines(bytes)));
    struct line *l = channel_lines(&p->out, in_lines ? short_lines(bytes) : 1);
    if (!l)
        return false;
    if (!in_lines)
        return write_medium(p, l, c, tag, start, bytes, r, sender);
    write_short(p, l, c, tag, start, bytes, r);
    return true;
}

static size_t head_bytes(const struct request *r)
{
    return r->bytes < HEAD_BYTES ? r->bytes : HEAD_BYTES;
}

/** How many of the first bytes are in the ring now. */
static size_t write_head(struct peer *p, struct request *r, char *room, unsigned *stores)
{
    size_t bytes = head_bytes(r);
    if (!room)
        return 0;
    *stores = r->start ? stores_choose(&p->out, bytes) : 0;
    uint64_t began = stores_begin(*stores);
    bytes = request_pack(r, room, bytes, *stores);
    stores_written(&p->out, bytes, *stores, began);
    return bytes;
}

/** A message of more than `medium_bytes`; false: no room. */
bool write_long(struct peer *p, struct request *r)
{
    struct line *l = channel_lines(&p->out, 1);
    if (!l)
        return false;
    struct message m = { .bytes = r->bytes, .is_long = true, .contiguous = r->start != NULL, .blocking = r->borrowed,
                         .to_self = r->node == job.self, .crowded = job.crowded };
    char *room = route_may_have_head(&m) ? channel_room(&p->out, head_bytes(r)) : NULL;
    m.head_fits = room != NULL;
    m.far = p->out.stores != 0;
    enum route way = choose_route(p, &m, r->start);
    unsigned stores = 0;
    size_t head = route_has_head(way) ? write_head(p, r, room, &stores) : 0;
    l->bytes = r->bytes;
    l->sender = (uint64_t)r;
    l->address = route_has_address(way) ? (uint64_t)r->start : 0;
    order_streamed();
    l->head = head;
    l->stores = (uint8_t)stores;
    address_line(l, way, r->comm, r->tag);
    channel_post(&p->out, l, 1, head);
    if (r->borrowed && m.unchanged)
        fetch_lines(r->start, r->bytes < GIVEN_BYTES ? r->bytes : GIVEN_BYTES);
    request_await(r);
    return true;
}
