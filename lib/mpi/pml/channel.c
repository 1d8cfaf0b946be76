/*
 * Channels: a ring of cache lines and a ring of bytes, one writer, one reader.
 *
 * The writer learns from two words of the reader how far it has read, and asks
 * only when a ring seems full.  Positions count up; a line tells where its data lies in
 * the ring of bytes, which never wraps within it.
 */
#include "pml_smartmap.h"

enum {
    GAP_BYTES = 1024,
    /* Shorter data is not taken for a stream; of longer data few lines are met again.  The least
     * ring has room for a gap, a jump at its end and the most, with a quarter that is not given back. */
    GAP_LEAST_BYTES = 512, GAP_MOST_BYTES = 8192,
};

static size_t round_up(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

size_t channel_bytes(const struct sizes *sizes)
{
    return sizeof(struct channel) + sizes->lines * sizeof(struct line) + sizes->ring_bytes;
}

/** Channel number `index` of a block, from its beginning. */
struct channel_end channel_end(struct block *block, int index, const struct sizes *sizes)
{
    struct channel *c =
        (struct channel *)(block->channels + (size_t)index * channel_bytes(sizes));
    return (struct channel_end){ .channel = c, .ring = (char *)&c->line[sizes->lines] };
}

/** Are the next lines to write one after the other, and not at both ends of the ring? */
bool channel_adjoins(const struct channel_end *out, unsigned lines)
{
    return (out->line & (job.sizes.lines - 1)) + lines <= job.sizes.lines;
}

/** The first of so many lines to write, or NULL: no room. */
struct line *channel_lines(struct channel_end *out, unsigned lines)
{
    if (OPAL_UNLIKELY(out->line + lines - out->lines_read > job.sizes.lines)) {
        out->lines_read = atomic_load_explicit(&out->channel->lines_read, memory_order_acquire);
        if (out->line + lines - out->lines_read > job.sizes.lines)
            return NULL;
    }
    return channel_next(out);
}

/** Where `bytes` go that begin at or after position `at`. */
static uint64_t place(uint64_t at, size_t bytes)
{
    uint64_t offset = at & (job.sizes.ring_bytes - 1);
    return offset + bytes > job.sizes.ring_bytes ? at - offset + job.sizes.ring_bytes : at;
}

static char *room_at(struct channel_end *out, uint64_t at, size_t bytes)
{
    uint64_t end = at + round_up(bytes);
    if (OPAL_UNLIKELY(end - out->bytes_read > job.sizes.ring_bytes)) {
        out->bytes_read = atomic_load_explicit(&out->channel->bytes_read, memory_order_acquire);
        stores_weigh(out);
        if (end - out->bytes_read > job.sizes.ring_bytes)
            return NULL;
    }
    out->room = at;
    return out->ring + (at & (job.sizes.ring_bytes - 1));
}

/**
 * A message that does not follow other data at once leaves a gap.  The reader's processor fetches
 * lines beyond those that it reads, and the writer would have to get them back.
 */
static size_t gap(const struct channel_end *out, size_t bytes)
{
    bool apart = out->waits != job.waits && bytes >= GAP_LEAST_BYTES && bytes <= GAP_MOST_BYTES;
    return apart ? GAP_BYTES : 0;
}

/** Room for a message, at most half of the ring, or NULL; channel_post uses it. */
char *channel_message_room(struct channel_end *out, size_t bytes)
{
    return room_at(out, place(out->byte + gap(out, bytes), bytes), bytes);
}

/** The same for part of one. */
char *channel_room(struct channel_end *out, size_t bytes)
{
    return room_at(out, place(out->byte, bytes), bytes);
}

/** Publish lines, and with them what was written into channel_room. */
void channel_post(struct channel_end *out, struct line *line, unsigned lines, size_t ring_bytes)
{
    if (ring_bytes > 0) {
        line->at = out->room;
        out->byte = out->room + round_up(ring_bytes);
        out->waits = job.waits;
    }
    out->line += lines;
    atomic_store_explicit(&line->written, 1, memory_order_release);
}

/** Write the last `bytes` of what a posted line announced; its reader follows. */
void channel_follow(struct channel_end *out, char *room, const char *data, size_t bytes, unsigned stores)
{
    uint64_t written = out->byte - round_up(bytes);
    for (size_t part; bytes > 0; bytes -= part, room += part, data += part) {
        part = bytes < FOLLOW_BYTES ? bytes : FOLLOW_BYTES;
        stores_copy(room, data, part, stores);
        written += round_up(part);
        atomic_store_explicit(&out->channel->bytes_written, written, memory_order_release);
    }
}

/** The reader's side of channel_room; freed with the line. */
const char *channel_take(struct channel_end *in, const struct line *line, size_t bytes)
{
    if (bytes == 0)
        return NULL;
    in->byte = line->at + round_up(bytes);
    if (line->stores & STORES_PAST_CACHES)
        in->written_past = in->byte;
    return in->ring + (line->at & (job.sizes.ring_bytes - 1));
}

/** How many bytes are there of what was taken last, `bytes` which follow their line. */
size_t channel_written(const struct channel_end *in, size_t bytes)
{
    uint64_t begin = in->byte - round_up(bytes);
    uint64_t at = atomic_load_explicit(&in->channel->bytes_written, memory_order_acquire);
    if (at >= in->byte)
        return bytes;
    return at < begin + FIRST_BYTES ? FIRST_BYTES : at - begin;
}

/** Lines are read.  No flag may stay: a line may be the first of the next message, and hold data of this one. */
void channel_clear(struct line *line, unsigned lines)
{
    for (unsigned i = 0; i < lines; i++)
        atomic_store_explicit(&line[i].written, 0, memory_order_relaxed);
}

/**
 * A store into each line of the ring from `begin` on that was read, and not given back yet, makes
 * it the reader's alone.  A writer's stores into lines that two caches hold wait
 * one after the other; those into lines that another cache holds alone do not
 * (docs/adr/0038).
 */
static void own_from(const struct channel_end *in, uint64_t begin)
{
    char *ring = in->ring;
    uint64_t mask = job.sizes.ring_bytes - 1, end = in->byte;
    for (uint64_t at = begin; at < end; at += LINE_BYTES)
        *(volatile char *)(ring + (at & mask)) = 0;
}

/** What was taken last, `bytes`: at once, to see what it costs. */
void channel_own(const struct channel_end *in, size_t bytes)
{
    own_from(in, in->byte - round_up(bytes));
}

/** The sender may use again what was read. */
void channel_free(struct channel_end *in)
{
    own_from(in, in->bytes_read > in->written_past ? in->bytes_read : in->written_past);
    atomic_store_explicit(&in->channel->bytes_read, in->byte, memory_order_release);
    atomic_store_explicit(&in->channel->lines_read, in->line, memory_order_release);
    in->lines_read = in->line;
    in->bytes_read = in->byte;
}
