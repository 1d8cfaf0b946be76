/*
 * Collectives that move data unchanged are one pattern: everybody posts what
 * it gives, everybody copies what is meant for it.  Receivers pull, so only
 * the sender's memory must be reachable; what is not (stack, static data, or
 * scattered by its datatype) is packed into memory that is.
 *
 * Two kinds of large pieces are put instead, where the taker wants them.  Where
 * one rank takes from all (gather), it would copy alone while the others wait.
 * Where all give the same to all (allgather), a giver reads its own memory once
 * for all takers, not each taker anew.
 */
#include "coll_smartmap.h"

#include <stdlib.h>
#include <string.h>

enum { PUT_AT_ONCE = 16384 }; /* so much of a piece goes to all: stays in the L1 cache */

/** What posting cost, until all readers are done. */
struct posting {
    void *temporary;
    bool held; /* others read our memory outside the slot, or write to it */
    const struct slot *gives; /* our slot, if it is a SLOT_GIVES */
};

static size_t out_bytes(const smartmap_module_t *m, const struct exchange *x)
{
    size_t sum = 0;
    for (int i = 0; i < (x->out_same ? 1 : m->size); i++)
        if (x->out_same || i != m->rank)
            sum += smartmap_packed_bytes(&x->out[i]);
    return sum;
}

/**
 * Up to how many bytes a copy into the slot costs less than waiting for the
 * readers: more for a rank that takes nothing, for else it would not wait.
 */
static size_t inline_limit(const smartmap_module_t *m, const struct exchange *x)
{
    return (size_t)(x->in ? m->use.inline_bytes : m->use.one_way_bytes);
}

/** One place for all pieces: the slot, or the heap. NULL: out of memory. */
static char *staging(smartmap_module_t *m, const struct exchange *x, struct slot *slot,
                     size_t bytes, struct posting *p)
{
    size_t table = (x->out_same ? 1 : (size_t)m->size) * sizeof(struct entry);
    if (table + bytes <= m->data_bytes && bytes <= inline_limit(m, x))
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
static bool all_in_place(smartmap_module_t *m, const struct exchange *x, struct slot *slot)
{
    for (int i = 0; i < (x->out_same ? 1 : m->size); i++) {
        size_t bytes = smartmap_packed_bytes(&x->out[i]);
        slot->entry[i] = (struct entry){ NULL, 0 };
        if (bytes > 0 && (x->out_same || i != m->rank) &&
            !in_place(&x->out[i], bytes, &slot->entry[i]))
            return false;
    }
    return true;
}

static int pack_all(smartmap_module_t *m, const struct exchange *x, struct slot *slot,
                    size_t bytes, struct posting *p)
{
    int entries = x->out_same ? 1 : m->size;
    char *to = staging(m, x, slot, bytes, p);
    if (!to)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < entries; i++) {
        size_t part = smartmap_packed_bytes(&x->out[i]);
        slot->entry[i] = (struct entry){ to, part };
        if (!x->out_same && i == m->rank)
            continue;
        int error = smartmap_pack(&x->out[i], to, part);
        if (error != OMPI_SUCCESS)
            return error;
        to += part;
    }
    return OMPI_SUCCESS;
}

/** Say where we want the others' pieces of `least` bytes or more; NULL: we take it. */
static void wish(smartmap_module_t *m, const struct exchange *x, size_t least,
                 struct entry *places)
{
    for (int r = 0; r < m->size; r++) {
        size_t bytes = smartmap_packed_bytes(&x->in[r]);
        if (r == m->rank || bytes < least || !in_place(&x->in[r], bytes, &places[r]))
            places[r] = (struct entry){ NULL, 0 };
    }
}

static void post_wishes(smartmap_module_t *m, const struct exchange *x, struct slot *slot)
{
    wish(m, x, inline_limit(m, x) + 1, slot->entry);
    slot->kind = SLOT_TAKES;
    smartmap_slot_post(m, slot);
}

/** Our piece lies in place: shall we put it to all others? */
static bool gives(const smartmap_module_t *m, const struct exchange *x, size_t bytes)
{
    return x->out_same && x->in && x->writer == ALL_RANKS &&
           bytes >= (size_t)m->use.put_bytes;
}

/** Where one that gives wants so much of another that gives; NULL: it takes it. */
static void *place_for(const struct slot *taker, int giver, size_t bytes)
{
    const struct entry *place = &taker->entry[1 + giver];
    return taker->kind == SLOT_GIVES && bytes <= place->bytes ? (void *)place->address : NULL;
}

/** Put what we give where the others want it, and where we want it ourselves. */
static int put_all(smartmap_module_t *m, const struct exchange *x, const struct slot *own,
                   bool *own_done)
{
    char *to[SMARTMAP_MAX_RANKS] = { NULL };
    struct entry e = own->entry[0];
    for (int r = 0; r < m->size; r++) {
        const struct slot *theirs;
        if (r == m->rank)
            continue;
        int error = smartmap_slot_read(m, r, &theirs);
        if (error != OMPI_SUCCESS)
            return error;
        void *place = place_for(theirs, m->rank, e.bytes);
        to[r] = place ? smartmap_view(m, r, place) : NULL;
    }
    if (!*own_done && smartmap_packed_bytes(&x->in[m->rank]) == e.bytes)
        *own_done = smartmap_is_contiguous(&x->in[m->rank], &to[m->rank]);
    for (size_t at = 0; at < e.bytes; at += PUT_AT_ONCE) {
        size_t part = e.bytes - at < PUT_AT_ONCE ? e.bytes - at : PUT_AT_ONCE;
        for (int r = 0; r < m->size; r++)
            if (to[r])
                memcpy(to[r] + at, (const char *)e.address + at, part);
    }
    return OMPI_SUCCESS;
}

/** The place where our only reader wants so much; NULL: it will take it. */
static int wanted_at(smartmap_module_t *m, const struct exchange *x, size_t bytes, void **to)
{
    const struct slot *theirs;
    *to = NULL;
    if (x->reader == ALL_RANKS || bytes <= inline_limit(m, x))
        return OMPI_SUCCESS;
    int error = smartmap_slot_read(m, x->reader, &theirs);
    if (error == OMPI_SUCCESS && theirs->kind == SLOT_TAKES &&
        theirs->entry[m->rank].bytes >= bytes)
        *to = smartmap_view(m, x->reader, theirs->entry[m->rank].address);
    return error;
}

/** Post our contribution; on failure the slot tells the readers. */
static int post(smartmap_module_t *m, const struct exchange *x, struct posting *p)
{
    struct slot *slot;
    void *to;
    int error = smartmap_slot_open(m, &slot);
    if (error != OMPI_SUCCESS)
        return error;
    if (x->reader == NO_RANK && x->writer == ALL_RANKS)
        post_wishes(m, x, slot);
    if (x->reader == NO_RANK || !x->out)
        return OMPI_SUCCESS;
    size_t bytes = out_bytes(m, x);
    error = wanted_at(m, x, bytes, &to);
    slot->kind = to ? SLOT_PUT : x->out_same ? SLOT_SAME : SLOT_TABLE;
    if (to)
        error = smartmap_pack(x->out, to, bytes);
    else if (error == OMPI_SUCCESS && bytes > inline_limit(m, x) && !x->out_copied &&
             all_in_place(m, x, slot)) {
        p->held = true;
        if (gives(m, x, bytes)) {
            wish(m, x, (size_t)m->use.put_bytes, slot->entry + 1);
            slot->kind = SLOT_GIVES;
            p->gives = slot;
        }
    } else if (error == OMPI_SUCCESS)
        error = pack_all(m, x, slot, bytes, p);
    if (error != OMPI_SUCCESS)
        slot->kind = SLOT_ERROR;
    smartmap_slot_post(m, slot);
    return error;
}

/** The detour for a sender who could not put its data where we see it. */
static int pull_far(smartmap_module_t *m, int from, struct entry e, const struct buffer *in)
{
    void *copy = malloc(e.bytes);
    int error = copy ? smartmap_fetch(m, from, copy, e.address, e.bytes) : MPI_ERR_NO_MEM;
    if (error == OMPI_SUCCESS)
        error = smartmap_unpack(in, copy, e.bytes);
    free(copy);
    return error;
}

static int pull(smartmap_module_t *m, int from, const struct buffer *in,
                const struct posting *p)
{
    const struct slot *slot;
    int error = smartmap_slot_read(m, from, &slot);
    if (error != OMPI_SUCCESS)
        return error;
    if (slot->kind == SLOT_PUT)
        return OMPI_SUCCESS;
    struct entry e = slot->entry[slot->kind == SLOT_TABLE ? m->rank : 0];
    if (slot->kind == SLOT_GIVES && p->gives && place_for(p->gives, from, e.bytes))
        return OMPI_SUCCESS;
    if (slot->far && e.bytes > 0)
        return pull_far(m, from, e, in);
    return smartmap_unpack(in, smartmap_view(m, from, e.address), e.bytes);
}

static int copy_own(const struct buffer *out, const struct buffer *in)
{
    char *from, *to;
    size_t bytes = smartmap_packed_bytes(out);
    if (bytes == smartmap_packed_bytes(in) && smartmap_is_contiguous(out, &from) &&
        smartmap_is_contiguous(in, &to)) {
        memmove(to, from, bytes);
        return OMPI_SUCCESS;
    }
    return ompi_datatype_sndrcv(out->address, (int32_t)out->count, out->type, in->address,
                                (int32_t)in->count, in->type);
}

static int wait_readers(smartmap_module_t *m, int reader)
{
    for (int i = 1; i < m->size; i++) {
        int r = (m->rank + i) % m->size;
        int error = reader == ALL_RANKS || reader == r ? smartmap_wait_done(m, r, m->op)
                                                       : OMPI_SUCCESS;
        if (error != OMPI_SUCCESS)
            return error;
    }
    return OMPI_SUCCESS;
}

int smartmap_exchange(smartmap_module_t *m, const struct exchange *x)
{
    struct posting p = { NULL, false, NULL };
    int error = post(m, x, &p), failed = error;
    bool reads_own = x->in && (x->writer == ALL_RANKS || x->writer == m->rank);
    bool own_done = x->own_in_place;
    if (p.gives)
        error = put_all(m, x, p.gives, &own_done);
    if (reads_own && x->out && !own_done && error == OMPI_SUCCESS)
        error = copy_own(&x->out[x->out_same ? 0 : m->rank], &x->in[m->rank]);
    for (int i = 1; i < m->size; i++) {
        int from = (m->rank + i) % m->size;
        failed = failed != OMPI_SUCCESS ? failed : error;
        if (x->in && (x->writer == ALL_RANKS || x->writer == from))
            error = pull(m, from, &x->in[from], &p);
    }
    failed = failed != OMPI_SUCCESS ? failed : error;
    smartmap_done(m);
    if (p.held) {
        error = wait_readers(m, x->reader);
        failed = failed != OMPI_SUCCESS ? failed : error;
    }
    free(p.temporary);
    return failed;
}
