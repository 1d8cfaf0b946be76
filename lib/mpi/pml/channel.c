/*
 * Channels: a ring of cache lines and a ring of bytes, one writer, one reader.
 *
 * Two words of the reader show how far it has read; the writer loads them
 * only when a ring seems full.  Positions count up; a line has where its data lies in
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

/*
 * Of data that follows its line, channel.bytes_written is how much is in the ring.  Its writer moves
 * that on, part by part.  A reader that copies data from where it lies instead sets COPYING, and
 * when it is done, moves it to the end.  So all comes into the ring, or the writer waits for the reader.
 */
enum { COPYING = 1 }; /* else it is a multiple of LINE_BYTES */

/**
 * Write the last `bytes` of what a posted line announced, in parts; its reader follows.
 * False: it copies, or has copied, the data from where it lies.
 */
bool channel_follow(struct channel_end *out, char *room, const char *data, size_t bytes, size_t part, unsigned stores)
{
    _Atomic uint64_t *word = &out->channel->bytes_written;
    uint64_t written = out->byte - round_up(bytes);
    for (; bytes > 0; bytes -= part, room += part, data += part) {
        part = bytes < part ? bytes : part;
        if (atomic_load_explicit(word, memory_order_relaxed) != out->followed)
            return false;
        stores_copy(room, data, part, stores);
        written += round_up(part);
        uint64_t former = out->followed;
        if (!atomic_compare_exchange_strong_explicit(word, &former, written, memory_order_release, memory_order_relaxed))
            return false;
        out->followed = written;
    }
    return true;
}

/** After channel_follow was false: has the reader copied it? */
bool channel_is_copied(struct channel_end *out)
{
    out->followed = atomic_load_explicit(&out->channel->bytes_written, memory_order_acquire);
    return out->followed == out->byte;
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

/** How many bytes are in the ring of what was taken last, `bytes` of which the `first` came with their line and the others follow. */
size_t channel_written(const struct channel_end *in, size_t bytes, size_t first)
{
    uint64_t begin = in->byte - round_up(bytes);
    uint64_t at = atomic_load_explicit(&in->channel->bytes_written, memory_order_acquire);
    if (at >= in->byte)
        return bytes;
    return at < begin + first ? first : at - begin;
}

/** May the reader copy what channel_take was last called for from where it lies?  Then channel_copied must follow. */
bool channel_claim(struct channel_end *in)
{
    _Atomic uint64_t *word = &in->channel->bytes_written;
    uint64_t written = atomic_load_explicit(word, memory_order_relaxed);
    do {
        if (written >= in->byte)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &written, written | COPYING, memory_order_acquire, memory_order_relaxed));
    in->written_past = in->byte;
    return true;
}

/** Its writer may go on. */
void channel_copied(struct channel_end *in)
{
    atomic_store_explicit(&in->channel->bytes_written, in->byte, memory_order_release);
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
