/*
 * Progress: empty the channels, write what waits for room, and notice peers
 * that have died.
 */
#define _GNU_SOURCE
#include "copy.h"
#include "pml_smartmap.h"

#include <sched.h>

#include "opal/runtime/opal_progress.h"

enum {
    EVENTS_AT_ONCE = 64,    /* from one peer before the next one's turn */
    SPINS = 32,             /* of our own progress for one of Open MPI's */
    IDLE_TO_YIELD = 2048,   /* polls that found nothing: some 50 us */
    /* Powers of 2.  A program that tests its requests while it computes polls as often as one that waits. */
    POLLS_TO_YIELD = 256, POLLS_TO_YIELD_CROWDED = 8, /* a call takes as long as 20 to 50 polls */
    POLLS_TO_CHECK = 4096, POLLS_TO_CHECK_CROWDED = 512, /* for peers that died: in so many, full channels empty twice */
};

/**
 * Is it time to notify the sender, though we have other work?  It would wait for us, and then we for it.
 * Earlier where more of the same data is to come: what was just read is in the first cache.
 */
static bool is_much_read(const struct channel_end *in, bool more)
{
    return in->line - in->lines_read >= job.sizes.lines / 4 ||
           in->byte - in->bytes_read >= job.sizes.ring_bytes / (more ? 8 : 4);
}

/** Might a medium message else find no room, though all is read?  We may compute now, and it may not wait. */
static bool is_room_scarce(const struct channel_end *in)
{
    uint64_t bytes = in->byte - in->bytes_read;
    return bytes > 0 && bytes + 2 * job.sizes.medium_bytes > job.sizes.ring_bytes;
}

static bool is_written(const struct line *line)
{
    return atomic_load_explicit(&line->written, memory_order_acquire) != 0;
}

/**
 * Not on when `wanted` is complete: what comes after it is likely to be for
 * receives that are yet to be posted, and would have to be kept in memory.  One
 * line is read in any case, so that no peer starves while another's stream lasts.
 */
static int empty_channel(int node, const struct request *wanted)
{
    struct channel_end *in = &job.peer[node].in;
    int events = 0;
    while (events < EVENTS_AT_ONCE && is_written(job.awaited[node])) {
        struct line *l = job.awaited[node];
        /* By a branch, which is predicted: where the next line is does not wait for this one. */
        unsigned lines = l->route == ROUTE_LINES ? short_lines(l->short_bytes) : 1;
        in->line += lines;
        job.awaited[node] = channel_next(in);
        /* A stream: its next line may be written already. */
        __builtin_prefetch(job.awaited[node]);
        bool more = receive_line(node, l);
        channel_clear(l, lines);
        job.unnotified = true;
        if (is_much_read(in, more) || is_room_scarce(in))
            channel_free(in);
        events++;
        if (wanted && REQUEST_COMPLETE(&wanted->super))
            break;
    }
    return events;
}

/** Kept apart, so that a poll which finds nothing is short: programs test their requests at every step. */
static bool is_there_work(void)
{
    if (OPAL_UNLIKELY(job.queued))
        return true;
    for (uint32_t node = 0; node < job.sizes.processes; node++)
        if (is_written(job.awaited[node]))
            return true;
    return false;
}

static __attribute__((noinline)) int poll_peers(const struct request *wanted)
{
    int events = 0;
    bool queued = false;
    for (uint32_t node = 0; node < job.sizes.processes; node++) {
        events += empty_channel((int)node, wanted);
        if (OPAL_UNLIKELY(job.peer[node].first != NULL))
            send_queued(&job.peer[node]);
        queued |= job.peer[node].first != NULL;
    }
    job.queued = queued;
    return events;
}

/** Nothing else to do: notify senders of what is read, and have its lines ready for them. */
static __attribute__((noinline)) void free_all_read(void)
{
    for (uint32_t node = 0; node < job.sizes.processes; node++) {
        struct channel_end *in = &job.peer[node].in;
        if (in->line != in->lines_read)
            channel_free(in);
    }
    job.unnotified = false;
}

/** A poll found nothing: time for what may wait. */
static void find_nothing(void)
{
    job.waits += !job.waiting;
    job.waiting = true;
    if (job.unnotified)
        free_all_read();
}

/**
 * Do the others live?  Not only when nothing comes: who waits for one that has
 * died would wait for ever while others send.
 */
static void check_peers(void)
{
    enter();
    job_find_lost();
    leave();
}

/** A count that some may miss where threads meet. */
static unsigned count(_Atomic unsigned *counter)
{
    unsigned value = atomic_load_explicit(counter, memory_order_relaxed) + 1;
    atomic_store_explicit(counter, value, memory_order_relaxed);
    return value;
}

/** One of so many, a power of 2. */
static bool is_one_of(unsigned number, unsigned many)
{
    return (number & (many - 1)) == 0;
}

/** For whom waits for `wanted`, or NULL. */
static int progress(const struct request *wanted)
{
    static _Atomic unsigned polls, idle_polls;
    if (OPAL_UNLIKELY(opal_using_threads()) && pthread_mutex_trylock(&job.lock) != 0)
        return 0; /* another thread is at it */
    int events = 0;
    if (is_there_work()) {
        events = poll_peers(wanted);
        job.waiting = false;
    } else {
        find_nothing();
    }
    leave();
    if (is_one_of(count(&polls), job.crowded ? POLLS_TO_CHECK_CROWDED : POLLS_TO_CHECK))
        check_peers();
    if (events > 0) {
        atomic_store_explicit(&idle_polls, 0, memory_order_relaxed);
        return events;
    }
    unsigned idle = count(&idle_polls);
    if (is_one_of(idle, job.crowded ? POLLS_TO_YIELD_CROWDED : POLLS_TO_YIELD) &&
        (job.crowded || idle > IDLE_TO_YIELD))
        sched_yield(); /* let others have the CPU */
    return 0;
}

int smartmap_progress(void)
{
    return progress(NULL);
}

/**
 * Who waits for a message fetches the lines that it will be copied to, some between
 * two polls.  Else the copy waits for them, and so does all that is stored after
 * it, an answer among it.
 */
static void fetch_buffer(struct request *r)
{
    const char *start = r->start;
    size_t bytes = start ? r->bytes : 0, most = (size_t)job.sizes.medium_bytes;
    for (size_t at = 0; at < bytes && at < most && !REQUEST_COMPLETE(&r->super); at += FETCHED_BYTES) {
        size_t left = bytes - at;
        fetch_lines(start + at, left < FETCHED_BYTES ? left : FETCHED_BYTES);
        progress(r);
    }
}

/** Until a request is complete. */
void smartmap_wait_for(struct request *r)
{
    if (r->receive)
        fetch_buffer(r);
    while (!REQUEST_COMPLETE(&r->super)) {
        for (int i = 0; i < SPINS && !REQUEST_COMPLETE(&r->super); i++)
            progress(r);
        if (opal_using_threads()) {
            ompi_request_wait_completion(&r->super);
            return;
        }
        if (!REQUEST_COMPLETE(&r->super))
            opal_progress();
    }
}
