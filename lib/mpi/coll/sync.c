/*
 * Waiting and signalling.  Collectives that never wait drive progress as well,
 * now and then (common/wait.h).
 */
#define _GNU_SOURCE
#include "team.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "sent.h"
#include "wait.h"

static int wait_long(struct team *t, int rank, const _Atomic uint64_t *word,
                     uint64_t value)
{
    struct wait w = wait_begin(t->crowded);
    while (atomic_load_explicit(word, memory_order_acquire) < value)
        if (wait_more(&w) && !smartmap_alive(t->node_rank[rank]) &&
            atomic_load_explicit(word, memory_order_acquire) < value) {
            smartmap_say("local rank %d waits in a collective for local "
                           "rank %d, which has died",
                        smartmap_rank(), t->node_rank[rank]);
            return MPI_ERR_OTHER;
        }
    return MPI_SUCCESS;
}

/** Wait until a word of rank `rank`'s control block reaches `value`. */
int smartmap_wait(struct team *t, int rank, const _Atomic uint64_t *word,
                  uint64_t value)
{
    if (likely(atomic_load_explicit(word, memory_order_acquire) >= value))
        return MPI_SUCCESS;
    return wait_long(t, rank, word, value);
}

/** Wait until rank `rank` has finished reading for collective `op`. */
int smartmap_wait_done(struct team *t, int rank, uint64_t op)
{
    if (t->seen_done[rank] >= op)
        return MPI_SUCCESS;
    const _Atomic uint64_t *done = &t->peer[rank]->done;
    int error = smartmap_wait(t, rank, done, op);
    t->seen_done[rank] = atomic_load_explicit(done, memory_order_relaxed);
    return error;
}

static struct slot *slot_of(const struct team *t, const struct control *c, uint64_t op)
{
    return (struct slot *)(c->slots + (op % SLOTS) * t->slot_bytes);
}

/** Begin the next collective: our slot for it, free to be written. */
int smartmap_slot_open(struct team *t, struct slot **slot)
{
    uint64_t op = ++t->op;
    drive_progress();
    *slot = slot_of(t, t->own, op);
    if (op <= SLOTS)
        return MPI_SUCCESS;
    for (int r = 0; r < t->size; r++) {
        int error = r == t->rank ? MPI_SUCCESS : smartmap_wait_done(t, r, op - SLOTS);
        if (unlikely(error != MPI_SUCCESS))
            return error;
    }
    (*slot)->far = (*slot)->fresh = 0;
    return MPI_SUCCESS;
}

void smartmap_slot_post(struct team *t, struct slot *slot)
{
    atomic_store_explicit(&slot->op, t->op, memory_order_release);
}

/** Wait for rank `rank`'s slot of the current collective. */
int smartmap_slot_read(struct team *t, int rank, const struct slot **slot)
{
    const struct slot *s = slot_of(t, t->peer[rank], t->op);
    int error = MPI_SUCCESS;
    *slot = s;
    if (atomic_load_explicit(&s->op, memory_order_acquire) >= t->op)
        /* It runs ahead of us, so its next contribution may be there, too. */
        __builtin_prefetch(slot_of(t, t->peer[rank], t->op + 1));
    else
        error = smartmap_wait(t, rank, &s->op, t->op);
    /* It posts only after it finished the collective before. */
    if (error == MPI_SUCCESS && t->seen_done[rank] < t->op - 1)
        t->seen_done[rank] = t->op - 1;
    if (error == MPI_SUCCESS && unlikely(s->kind == SLOT_ERROR))
        return MPI_ERR_NO_MEM;
    return error;
}

/** So much at least is polled by itself. */
enum { FRESH_LEAST_BYTES = 1024 };

static bool may_be_kept(const struct team *t)
{
    return t->given && PORT_KEEPS;
}

/**
 * Of data that is read in place: shall who reads it keep its lines?  If it had changed when it
 * was given last; data that stays is read again from the readers' caches.
 */
bool smartmap_fresh(const struct team *t, const struct entry *entry, int entries)
{
    if (!may_be_kept(t))
        return false;
    for (int i = 0; i < entries; i++)
        if (entry[i].bytes >= FRESH_LEAST_BYTES && sent_changes(t->given, entry[i].address))
            return true;
    return false;
}

/** For smartmap_fresh the next time.  It waits for the data, so it is called when there is nothing else to do. */
void smartmap_note_given(const struct team *t, const struct entry *entry, int entries)
{
    if (!may_be_kept(t))
        return;
    for (int i = 0; i < entries; i++)
        if (entry[i].bytes >= FRESH_LEAST_BYTES)
            (void)sent_unchanged(t->given, entry[i].address, entry[i].bytes);
}

/** Say that we have read all we need for the current collective. */
void smartmap_done(struct team *t)
{
    atomic_store_explicit(&t->own->done, t->op, memory_order_release);
}

/** Each counts its barriers, and waits for the others' counts: no slot, no done. */
int smartmap_barrier(struct team *t)
{
    uint64_t turn = ++t->barriers;
    int error = MPI_SUCCESS;
    drive_progress();
    atomic_store_explicit(&t->own->barriers, turn, memory_order_release);
    for (int r = 0; r < t->size && error == MPI_SUCCESS; r++)
        if (r != t->rank)
            error = smartmap_wait(t, r, &t->peer[r]->barriers, turn);
    return error;
}

/**
 * Read what rank `rank` has outside of its arena, or in one that the program
 * has remapped: by process_vm_readv, which the provider passes on to Linux.
 * Where that is forbidden (Yama, seccomp), windows still show pages that the
 * program has only protected.
 */
int smartmap_fetch(struct team *t, int rank, void *to, const void *from, size_t bytes)
{
    enum { MOST_BYTES = 1 << 30 }; /* Linux moves less than 2 GiB at a time */
    for (size_t at = 0; at < bytes;) {
        size_t part = bytes - at < MOST_BYTES ? bytes - at : MOST_BYTES;
        struct iovec local = { (char *)to + at, part }, remote = { (char *)from + at, part };
        ssize_t got = process_vm_readv(t->pid[rank], &local, 1, &remote, 1, 0);
        if (got <= 0 && smartmap_shows(t->node_rank[rank], (char *)from + at, bytes - at)) {
            memcpy((char *)to + at, smartmap_view(t, rank, (char *)from + at), bytes - at);
            return MPI_SUCCESS;
        }
        if (got <= 0) {
            smartmap_say("local rank %d cannot read from local rank %d, whose "
                           "arena is full or remapped: %s; try a larger SMARTMAP_ARENA_BYTES",
                        smartmap_rank(), t->node_rank[rank], strerror(errno));
            return MPI_ERR_NO_MEM;
        }
        at += (size_t)got;
    }
    return MPI_SUCCESS;
}
