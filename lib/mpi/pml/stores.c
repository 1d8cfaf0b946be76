/*
 * Which stores fill the ring of bytes: ordinary ones or non-temporal ones.
 *
 * Between cores of one cache ordinary stores are faster: the data goes from cache to cache.
 * Between cores that are far apart memory may be the shorter way (docs/adr/0039).
 * Which holds depends on the machine and on where the processes run, and a virtual
 * machine moves them.  So both sides measure it once in a round: as many bytes as a ring has,
 * of data that is long enough.  In some of CYCLE rounds the sender tries the other stores; the
 * first of these does not count, for it meets lines that the former stores have left in some cache.
 */
#include "copy.h"
#include "pml_smartmap.h"

#include <emmintrin.h>
#include <x86intrin.h>

enum {
    PAST_LEAST_BYTES = 2048,  /* shorter data waits longer for the fence than it gains */
    TIMED_LEAST_BYTES = 4096, /* of shorter data the fences are too large a part */
    ROUND_BYTES = 128 << 10,
    CYCLE = 256,
    TRIAL = 2, /* the round in a cycle with which a trial begins */
    TRIAL_ROUNDS = 4,
    COST_LINES = 16,
};

static unsigned round_in_cycle(const struct channel_end *out)
{
    return out->long_bytes / ROUND_BYTES % CYCLE;
}

/** Those of now, for data that is long enough. */
unsigned stores_now(const struct channel_end *out)
{
    unsigned round = round_in_cycle(out);
    bool tries = round >= TRIAL && round < TRIAL + TRIAL_ROUNDS;
    return tries ? out->stores ^ STORES_PAST_CACHES : out->stores;
}

/** Counts a send that need not go through the ring: one of so many does, to be measured. */
bool stores_take_turn(struct peer *p)
{
    enum { ONE_OF = 16 };
    return ++p->direct_sends % ONE_OF == 0;
}

static bool is_counted(size_t bytes)
{
    return bytes >= TIMED_LEAST_BYTES && !job.crowded;
}

/** Would stores_choose now have the data timed? */
bool stores_are_timed(const struct channel_end *out, size_t bytes)
{
    unsigned round = round_in_cycle(out);
    return is_counted(bytes) && round != out->timed && round != TRIAL && round != TRIAL + TRIAL_ROUNDS;
}

/** STORES_ flags for data that goes to channel_room. */
unsigned stores_choose(struct channel_end *out, size_t bytes)
{
    if (bytes < PAST_LEAST_BYTES)
        return 0;
    unsigned stores = stores_now(out);
    if (!is_counted(bytes))
        return stores;
    if (stores_are_timed(out, bytes))
        stores |= STORES_TIMED;
    out->timed = round_in_cycle(out);
    out->long_bytes += bytes;
    return stores;
}

static uint32_t cost(const struct channel_end *out, unsigned stores)
{
    uint32_t read = atomic_load_explicit(&out->channel->read_cost[stores], memory_order_relaxed);
    return read == 0 || out->write_cost[stores] == 0 ? 0 : read + out->write_cost[stores];
}

/** Choose anew; the receiver's words have just been read. */
void stores_weigh(struct channel_end *out)
{
    uint32_t now = cost(out, out->stores), other = cost(out, out->stores ^ STORES_PAST_CACHES);
    if (now != 0 && other != 0 && other + other / 16 < now)
        out->stores ^= STORES_PAST_CACHES;
}

static void store_past_caches(char *to, const char *from, size_t bytes)
{
    for (; bytes >= LINE_BYTES; bytes -= LINE_BYTES, to += LINE_BYTES, from += LINE_BYTES)
        for (size_t at = 0; at < LINE_BYTES; at += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
    memcpy(to, from, bytes);
    _mm_sfence();
}

/** To the beginning of a line of the ring. */
void stores_copy(char *to, const char *from, size_t bytes, unsigned stores)
{
    if (stores & STORES_PAST_CACHES)
        store_past_caches(to, from, bytes);
    else
        copy_in_pieces(to, from, bytes);
}

/** Before data is copied: its beginning, if it is timed. */
uint64_t stores_begin(unsigned stores)
{
    return OPAL_UNLIKELY(stores & STORES_TIMED) ? __rdtsc() : 0;
}

/** The average of the last few.  One that was interrupted counts no more than twice what these did. */
static uint32_t average(uint32_t former, uint64_t ticks)
{
    uint64_t most = former == 0 ? UINT32_MAX / 8 : 2 * (uint64_t)former;
    uint64_t now = ticks < most ? ticks : most;
    return (uint32_t)(former == 0 ? now : (3 * (uint64_t)former + now) / 4);
}

/** Since `began`, until all stores are done. */
static uint32_t measured(uint32_t former, size_t bytes, uint64_t began)
{
    _mm_mfence();
    return average(former, (__rdtsc() - began) * COST_LINES * LINE_BYTES / bytes + 1);
}

/** The sender's side, after stores_begin. */
void stores_written(struct channel_end *out, size_t bytes, unsigned stores, uint64_t began)
{
    if (OPAL_LIKELY(!(stores & STORES_TIMED)))
        return;
    uint32_t *last = &out->write_cost[stores & STORES_PAST_CACHES];
    *last = measured(*last, bytes, began);
}

/** The receiver's, of what it had room for, with the stores that channel_free has to do (not after non-temporal ones). */
void stores_read(struct channel_end *in, size_t bytes, unsigned stores, uint64_t began)
{
    if (OPAL_LIKELY(!(stores & STORES_TIMED)) || bytes == 0)
        return;
    if (!(stores & STORES_PAST_CACHES))
        channel_own(in, bytes);
    _Atomic uint32_t *cost = &in->channel->read_cost[stores & STORES_PAST_CACHES];
    uint32_t last = atomic_load_explicit(cost, memory_order_relaxed);
    atomic_store_explicit(cost, measured(last, bytes, began), memory_order_relaxed);
}
