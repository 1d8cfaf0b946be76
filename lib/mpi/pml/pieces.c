/*
 * Long data that its receiver cannot copy by itself, or whose sender waits for it: in
 * pieces through the ring of bytes.  Sender and receiver copy at the same time,
 * each its half.
 */
#include "pml_smartmap.h"

/** Under the lock: its receiver wants pieces. */
void pieces_cleared(struct request *send)
{
    request_answered(send);
    send_queue(send, STEP_PIECES);
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
    for (size_t bytes = 1; send->moved < send->bytes && bytes > 0;) {
        bytes = next_piece(p, send);
        struct line *l = channel_lines(&p->out, 1);
        char *room = l ? channel_room(&p->out, bytes) : NULL;
        if (!room)
            return false;
        unsigned stores = send->start ? stores_choose(&p->out, bytes) : 0;
        uint64_t began = stores_begin(stores);
        bytes = request_pack(send, room, bytes, stores);
        line_name(l, LINE_PIECE, ROUTE_NONE);
        l->stores = (uint8_t)stores;
        l->receiver = send->partner;
        l->bytes = bytes;
        channel_post(&p->out, l, 1, bytes);
        stores_written(&p->out, bytes, stores, began);
    }
    request_finish(send, OMPI_SUCCESS);
    return true;
}

/** Under the lock: one has come; true: it is not the last. */
bool pieces_read(struct request *r, const char *data, size_t bytes)
{
    request_unpack(r, data, bytes);
    bool more = r->moved < r->bytes && bytes > 0;
    if (!more)
        request_finish(r, r->super.req_status.MPI_ERROR);
    return more;
}
