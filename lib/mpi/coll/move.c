/*
 * Collectives that move data unchanged are one pattern: everybody posts what
 * it gives, everybody copies what is meant for it.  Receivers pull, so only
 * the sender's memory must be reachable; what is not (stack, static data, or
 * scattered by its datatype) is packed into memory that is.
 *
 * Who takes a piece of fresh data, alone, keeps its lines (copy.h).
 *
 * Two kinds of large pieces that are not fresh are put instead, where the taker wants them.  Where
 * one rank takes from all (gather), it would copy alone while the others wait.
 * Where all give the same to all (allgather), a giver reads its own memory once
 * for all takers, not each taker anew.
 */
#include "copy.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

enum { PUT_AT_ONCE = 16384 }; /* so much of a piece goes to all: stays in the L1 cache */

/** What posting cost, until all readers are done. */
struct posting {
    void *temporary;
    bool held; /* others read our memory outside the slot, or write to it */
    const struct slot *gives; /* our slot, if it is a SLOT_GIVES */
    const struct slot *placed; /* the same, if its entries are places in the user's memory */
    const struct slot *given; /* the same, if others read in place what it names, and we only wait */
};

static int entries_of(const struct team *t, const struct exchange *x)
{
    return x->out_same ? 1 : t->size;
}

static size_t out_bytes(const struct team *t, const struct exchange *x)
{
    size_t sum = 0;
    for (int i = 0; i < entries_of(t, x); i++)
        if (x->out_same || i != t->rank)
            sum += smartmap_packed_bytes(&x->out[i]);
    return sum;
}

/** Does this rank take something from others, and so wait for them? */
static bool takes(const struct team *t, const struct exchange *x)
{
    return x->in && x->writer != t->rank;
}

/**
 * Up to how many bytes a copy into the slot costs less than waiting for the
 * readers: more for a rank that takes nothing, for else it would not wait.
 */
static size_t inline_limit(const struct team *t, const struct exchange *x)
{
    return (size_t)(takes(t, x) ? t->use.inline_bytes : t->use.one_way_bytes);
}

/** One place for all pieces: the slot, or the heap. NULL: out of memory. */
static char *staging(struct team *t, const struct exchange *x, struct slot *slot,
                     size_t bytes, struct posting *p)
{
    size_t table = (size_t)entries_of(t, x) * sizeof(struct entry);
    if (table + bytes <= t->data_bytes && bytes <= inline_limit(t, x))
        return slot->data + table;
    p->temporary = malloc(bytes);
    p->held = true;
    slot->far = p->temporary && smartmap_exports(p->temporary, bytes) ? 0 : FAR_DATA;
    return p->temporary;
}

static bool in_place(const struct buffer *b, size_t bytes, struct entry *entry)
{
    char *start;
    if (!smartmap_is_contiguous(b, &start) || !smartmap_exports(start, bytes))
        return false;
    *entry = (struct entry){ start, bytes };
    return true;
}

/** Fill the slot's entries with pieces in place where all of them can be. */
static bool all_in_place(struct team *t, const struct exchange *x, struct slot *slot)
{
    for (int i = 0; i < entries_of(t, x); i++) {
        size_t bytes = smartmap_packed_bytes(&x->out[i]);
        slot->entry[i] = (struct entry){ NULL, 0 };
        if (bytes > 0 && (x->out_same || i != t->rank) &&
            !in_place(&x->out[i], bytes, &slot->entry[i]))
            return false;
    }
    return true;
}

static int pack_all(struct team *t, const struct exchange *x, struct slot *slot,
                    size_t bytes, struct posting *p)
{
    int entries = entries_of(t, x);
    char *to = staging(t, x, slot, bytes, p);
    if (!to)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < entries; i++) {
        size_t part = smartmap_packed_bytes(&x->out[i]);
        slot->entry[i] = (struct entry){ to, part };
        if (!x->out_same && i == t->rank)
            continue;
        int error = smartmap_pack(&x->out[i], to, part);
        if (error != MPI_SUCCESS)
            return error;
        to += part;
    }
    return MPI_SUCCESS;
}

/** Say where we want the others' pieces of `least` bytes or more; NULL: we take it. */
static void wish(struct team *t, const struct exchange *x, size_t least,
                 struct entry *places)
{
    for (int r = 0; r < t->size; r++) {
        size_t bytes = smartmap_packed_bytes(&x->in[r]);
        if (r == t->rank || bytes < least || !in_place(&x->in[r], bytes, &places[r]))
            places[r] = (struct entry){ NULL, 0 };
    }
}

static void post_wishes(struct team *t, const struct exchange *x, struct slot *slot)
{
    wish(t, x, inline_limit(t, x) + 1, slot->entry);
    order_streamed();
    slot->kind = SLOT_TAKES;
    smartmap_slot_post(t, slot);
}

/** Is each piece for one peer?  Several would take its lines from each other. */
static bool one_reads(const struct team *t, const struct exchange *x)
{
    return !x->out_same || x->reader != ALL_RANKS || t->size == 2;
}

/** Our piece lies in place: shall we put it to all others? */
static bool gives(const struct team *t, const struct exchange *x, size_t bytes)
{
    return x->out_same && x->in && x->writer == ALL_RANKS &&
           bytes >= (size_t)t->use.put_bytes;
}

/** Where one that gives wants so much of another that gives; NULL: it takes it. */
static void *place_for(const struct slot *taker, int giver, size_t bytes)
{
    const struct entry *place = &taker->entry[1 + giver];
    return taker->kind == SLOT_GIVES && bytes <= place->bytes ? (void *)place->address : NULL;
}

/** Put what we give where the others want it, and where we want it ourselves. */
static int put_all(struct team *t, const struct exchange *x, const struct slot *own,
                   bool *own_done)
{
    char *to[SMARTMAP_MAX_RANKS] = { NULL };
    struct entry e = own->entry[0];
    for (int r = 0; r < t->size; r++) {
        const struct slot *theirs;
        if (r == t->rank)
            continue;
        int error = smartmap_slot_read(t, r, &theirs);
        if (error != MPI_SUCCESS)
            return error;
        void *place = place_for(theirs, t->rank, e.bytes);
        to[r] = place ? smartmap_view(t, r, place) : NULL;
    }
    if (!*own_done && smartmap_packed_bytes(&x->in[t->rank]) == e.bytes)
        *own_done = smartmap_is_contiguous(&x->in[t->rank], &to[t->rank]);
    for (size_t at = 0; at < e.bytes; at += PUT_AT_ONCE) {
        size_t part = e.bytes - at < PUT_AT_ONCE ? e.bytes - at : PUT_AT_ONCE;
        for (int r = 0; r < t->size; r++)
            if (to[r])
                memcpy(to[r] + at, (const char *)e.address + at, part);
    }
    return MPI_SUCCESS;
}

/** The place where our only reader wants so much; NULL: it will take it. */
static int wanted_at(struct team *t, const struct exchange *x, size_t bytes, void **to)
{
    const struct slot *theirs;
    *to = NULL;
    if (x->reader == ALL_RANKS || bytes <= inline_limit(t, x))
        return MPI_SUCCESS;
    int error = smartmap_slot_read(t, x->reader, &theirs);
    if (error == MPI_SUCCESS && theirs->kind == SLOT_TAKES &&
        theirs->entry[t->rank].bytes >= bytes)
        *to = smartmap_view(t, x->reader, theirs->entry[t->rank].address);
    return error;
}

/** What others read in place, while we wait for them. */
static inline __attribute__((always_inline)) void fetch_given(
    const struct team *t, const struct exchange *x, const struct slot *slot)
{
    size_t left = GIVEN_BYTES;
    for (int i = 0; i < entries_of(t, x); i++) {
        size_t bytes = slot->entry[i].bytes < left ? slot->entry[i].bytes : left;
        fetch_lines(slot->entry[i].address, bytes);
        left -= bytes;
    }
}

/** Post our contribution; on failure the readers find that in the slot. */
static int post(struct team *t, const struct exchange *x, struct posting *p)
{
    struct slot *slot;
    void *to = NULL;
    int error = smartmap_slot_open(t, &slot);
    if (error != MPI_SUCCESS)
        return error;
    if (x->reader == NO_RANK && x->writer == ALL_RANKS)
        post_wishes(t, x, slot);
    if (x->reader == NO_RANK || !x->out)
        return MPI_SUCCESS;
    size_t bytes = out_bytes(t, x);
    bool placed = bytes > inline_limit(t, x) && !x->out_copied && all_in_place(t, x, slot);
    p->placed = placed ? slot : NULL;
    slot->fresh = placed && one_reads(t, x) && smartmap_fresh(t, slot->entry, entries_of(t, x));
    if (!slot->fresh)
        error = wanted_at(t, x, bytes, &to);
    slot->kind = to ? SLOT_PUT : x->out_same ? SLOT_SAME : SLOT_TABLE;
    if (to)
        error = smartmap_pack(x->out, to, bytes);
    else if (error == MPI_SUCCESS && placed) {
        p->held = true;
        order_streamed();
        if (!slot->fresh && gives(t, x, bytes)) {
            wish(t, x, (size_t)t->use.put_bytes, slot->entry + 1);
            slot->kind = SLOT_GIVES;
            p->gives = slot;
        }
    } else if (error == MPI_SUCCESS)
        error = pack_all(t, x, slot, bytes, p);
    if (error != MPI_SUCCESS)
        slot->kind = SLOT_ERROR;
    smartmap_slot_post(t, slot);
    if (p->held && !p->temporary && !slot->fresh && !takes(t, x))
        p->given = slot;
    return error;
}

/** The detour for a sender who could not put its data where we see it. */
static int pull_far(struct team *t, int from, struct entry e, const struct buffer *in)
{
    void *copy = malloc(e.bytes);
    int error = copy ? smartmap_fetch(t, from, copy, e.address, e.bytes) : MPI_ERR_NO_MEM;
    if (error == MPI_SUCCESS)
        error = smartmap_unpack(in, copy, e.bytes, false);
    free(copy);
    return error;
}

static int pull(struct team *t, int from, const struct buffer *in,
                const struct posting *p)
{
    const struct slot *slot;
    int error = smartmap_slot_read(t, from, &slot);
    if (error != MPI_SUCCESS)
        return error;
    if (slot->kind == SLOT_PUT)
        return MPI_SUCCESS;
    struct entry e = slot->entry[slot->kind == SLOT_TABLE ? t->rank : 0];
    if (slot->kind == SLOT_GIVES && p->gives && place_for(p->gives, from, e.bytes))
        return MPI_SUCCESS;
    if (slot->far && e.bytes > 0)
        return pull_far(t, from, e, in);
    return smartmap_unpack(in, smartmap_view(t, from, e.address), e.bytes, slot->fresh);
}

static int copy_own(const struct buffer *out, const struct buffer *in)
{
    char *from, *to;
    size_t bytes = smartmap_packed_bytes(out);
    if (bytes == smartmap_packed_bytes(in) && smartmap_is_contiguous(out, &from) &&
        smartmap_is_contiguous(in, &to)) {
        memmove(to, from, bytes);
        return MPI_SUCCESS;
    }
    return smartmap_convert(out, in);
}

/** Until all are done, or dead: where one has died, others may still use our memory. */
static int wait_readers(struct team *t, int reader)
{
    int failed = MPI_SUCCESS;
    for (int i = 1; i < t->size; i++) {
        int r = (t->rank + i) % t->size;
        int error = reader == ALL_RANKS || reader == r ? smartmap_wait_done(t, r, t->op)
                                                       : MPI_SUCCESS;
        failed = failed != MPI_SUCCESS ? failed : error;
    }
    return failed;
}

int smartmap_exchange(struct team *t, const struct exchange *x)
{
    struct posting p = { 0 };
    int error = post(t, x, &p), failed = error;
    bool reads_own = x->in && (x->writer == ALL_RANKS || x->writer == t->rank);
    bool own_done = x->own_in_place;
    if (p.gives)
        error = put_all(t, x, p.gives, &own_done);
    if (reads_own && x->out && !own_done && error == MPI_SUCCESS)
        error = copy_own(&x->out[x->out_same ? 0 : t->rank], &x->in[t->rank]);
    if (p.given)
        fetch_given(t, x, p.given);
    for (int i = 1; i < t->size; i++) {
        int from = (t->rank + i) % t->size;
        failed = failed != MPI_SUCCESS ? failed : error;
        if (x->in && (x->writer == ALL_RANKS || x->writer == from))
            error = pull(t, from, &x->in[from], &p);
    }
    failed = failed != MPI_SUCCESS ? failed : error;
    smartmap_done(t);
    if (p.placed)
        smartmap_note_given(t, p.placed->entry, entries_of(t, x));
    if (p.held) {
        error = wait_readers(t, x->reader);
        failed = failed != MPI_SUCCESS ? failed : error;
    }
    free(p.temporary);
    return failed;
}
