/*
 * Long data in pieces through the ring of bytes: sender and receiver copy at the
 * same time, each its half (docs/adr/0038).
 *
 * The sender claims each piece before it writes it.  One that has left the library,
 * or is at other work for long, does not go on; then the receiver claims the rest, and
 * copies it from where it lies.
 */
#include "pml_smartmap.h"

enum {
    TAKEN_BACK = UINT32_MAX, /* for the number of pieces claimed: the rest is the receiver's */
    IDLE_TO_LOOK = 1024,     /* polls that found nothing: 10 to 20 us, in which a piece is copied twice */
};

static uint64_t claim(uint32_t serial, uint32_t pieces)
{
    return (uint64_t)serial << 32 | pieces;
}

/** Before the line that tells of the data: the serial number that the line has. */
uint32_t pieces_offer(struct request *send)
{
    atomic_store_explicit(&send->claimed, claim(++job.serial, 0), memory_order_relaxed);
    return job.serial;
}

/** Under the lock: its receiver wants pieces. */
void pieces_asked(struct request *send)
{
    request_answered(send);
    send_queue(send, ERRAND_PIECES);
}

/** Under the lock: its receiver has all.  A send that does not wait for that waits for room for a piece. */
void pieces_done(struct request *send)
{
    if (!send->awaits)
        send_unqueue(send);
    request_finish(send, OMPI_SUCCESS);
}

static bool is_taken_back(struct request *send)
{
    return (uint32_t)atomic_load_explicit(&send->claimed, memory_order_relaxed) == TAKEN_BACK;
}

static bool claim_next(struct request *send)
{
    uint64_t now = atomic_load_explicit(&send->claimed, memory_order_relaxed);
    return (uint32_t)now != TAKEN_BACK && atomic_compare_exchange_strong(&send->claimed, &now, now + 1);
}

/** Short enough that the receiver empties one while the next is written. */
static size_t next_piece(const struct peer *p, const struct request *send)
{
    size_t left = send->bytes - send->moved, most = job.sizes.ring_bytes / (stores_now(&p->out) ? 4 : 8);
    return left < most ? left : most;
}

/**
 * As many as there is room for; true: no more are to come.  An empty piece is the last:
 * a truncating receive ends within the next element.
 */
bool pieces_write(struct peer *p, struct request *send)
{
    bool ours = !is_taken_back(send);
    for (size_t bytes = 1; ours && send->moved < send->bytes && bytes > 0;) {
        bytes = next_piece(p, send);
        struct line *l = channel_lines(&p->out, 1);
        char *room = l ? channel_room(&p->out, bytes) : NULL;
        if (!room)
            return false;
        ours = claim_next(send);
        if (!ours)
            break;
        unsigned stores = send->start ? stores_choose(&p->out, bytes) : 0;
        uint64_t began = stores_begin(stores);
        bytes = request_pack(send, room, bytes, stores);
        l->kind = LINE_PIECE;
        l->stores = (uint8_t)stores;
        l->receiver = send->partner;
        l->bytes = bytes;
        channel_post(&p->out, l, 1, bytes);
        stores_written(&p->out, bytes, stores, began);
        progress_count();
    }
    if (ours)
        request_finish(send, OMPI_SUCCESS);
    else
        request_await(send);
    return true;
}

/** Under the lock: a receive is about to ask for the pieces of the sending with this number. */
void pieces_expect(struct request *r, uint32_t serial)
{
    r->serial = serial;
    r->pieces_read = 0;
    r->pieces_seen = UINT32_MAX; /* the first look is none */
}

/** Under the lock: one has come; true: it is not the last. */
bool pieces_read(struct request *r, const char *data, size_t bytes)
{
    r->pieces_read++;
    request_unpack(r, data, bytes);
    progress_count();
    bool more = r->moved < r->bytes && bytes > 0;
    if (!more)
        request_finish(r, r->super.req_status.MPI_ERROR);
    return more;
}

/** Unless the sender has begun another piece, or has written all, or died. */
static void take_back(struct request *r)
{
    unsigned rank = (unsigned)job.peer[r->node].smartmap_rank;
    struct request *send = (struct request *)r->partner;
    if (!smartmap_reachable((int)rank, &send->claimed, sizeof send->claimed))
        return;
    _Atomic uint64_t *claimed = smartmap_remote(rank, &send->claimed);
    uint64_t expected = claim(r->serial, r->pieces_read);
    if (!atomic_compare_exchange_strong(claimed, &expected, claim(r->serial, TAKEN_BACK)))
        return;
    request_answered(r);
    request_unpack(r, smartmap_remote(rank, (char *)r->address + r->moved), r->bytes - r->moved);
    send_queue(r, ERRAND_DONE);
}

/** Since the last look. */
static bool has_got_on(struct request *r)
{
    bool got_on = r->pieces_read != r->pieces_seen;
    r->pieces_seen = r->pieces_read;
    return got_on;
}

static void look_at(struct peer *p)
{
    unsigned polls = atomic_load_explicit(&p->block->polls, memory_order_relaxed);
    bool polled = polls != p->polls_seen;
    p->polls_seen = polls;
    for (struct request *after, *r = p->awaiting; r; r = after) {
        after = r->after;
        if (r->receive && !has_got_on(r) && !polled && r->address != 0)
            take_back(r);
    }
}

/** Under the lock, where nothing is to be done: do the senders of pieces go on? */
void pieces_look(void)
{
    static unsigned idle;
    if (++idle % IDLE_TO_LOOK != 0)
        return;
    for (uint32_t node = 0; node < job.sizes.processes; node++)
        if (job.peer[node].asked > 0)
            look_at(&job.peer[node]);
}
