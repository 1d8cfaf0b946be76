/*
 * Receives, and what comes out of channels.
 */
#define _GNU_SOURCE
#include "copy.h"
#include "pml_smartmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ompi/runtime/mpiruntime.h"

/** By Linux, for what windows do not show; false: it refuses. */
static bool read_by_linux(const struct peer *p, char *to, uint64_t from, size_t bytes)
{
    enum { MOST_BYTES = 1 << 30 }; /* Linux moves less than 2 GiB at a time */
    for (size_t at = 0; at < bytes;) {
        size_t part = bytes - at < MOST_BYTES ? bytes - at : MOST_BYTES;
        struct iovec local = { to + at, part }, remote = { (char *)from + at, part };
        ssize_t got = process_vm_readv(p->pid, &local, 1, &remote, 1, 0);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/** Copy long data, but its head, from where it lies; false: its sender must send it. */
static bool copy_rest(struct request *r, const struct incoming *m)
{
    const struct peer *p = &job.peer[m->node];
    const char *address = (const char *)m->address + r->moved;
    size_t bytes = r->bytes - r->moved;
    if (m->address == 0)
        return false;
    if (m->node == job.self)
        request_unpack(r, address, bytes);
    else if (!smartmap_reachable(p->smartmap_rank, address, bytes))
        return r->start && read_by_linux(p, r->start + r->moved, (uint64_t)address, bytes);
    else if (m->state == STATE_FRESH && r->start)
        copy_and_keep(r->start + r->moved, smartmap_remote((unsigned)p->smartmap_rank, address), bytes);
    else
        request_unpack(r, smartmap_remote((unsigned)p->smartmap_rank, address), bytes);
    return true;
}

/**
 * What has no address comes in pieces, and what its sender waits with, if we wait as well: a
 * process that does not may compute next, and they would not come.
 */
static bool wants_pieces(const struct request *r, const struct incoming *m)
{
    return m->address == 0 || (m->head > 0 && r->borrowed);
}

/** Long data: who wants pieces asks for them before it copies the head. */
static void receive_long(struct request *r, const struct incoming *m)
{
    size_t head = m->head < r->bytes ? m->head : r->bytes;
    bool asks = head < r->bytes && !job.peer[m->node].lost && wants_pieces(r, m);
    if (asks)
        send_queue(r, ERRAND_ASK);
    uint64_t began = stores_begin(m->stores);
    if (head > 0)
        request_unpack(r, m->data, head);
    stores_read(&job.peer[m->node].in, head, m->stores, began);
    if (!asks)
        send_queue(r, head == r->bytes || copy_rest(r, m) ? ERRAND_DONE : ERRAND_ASK);
}

/** More than `have` bytes of short or medium data, for which it waits; `have`: the sender died. */
static size_t arrived(const struct incoming *m, size_t have)
{
    if (m->state != STATE_FOLLOWS)
        return m->bytes;
    const struct peer *p = &job.peer[m->node];
    size_t first = m->address ? 0 : FIRST_BYTES, bytes = channel_written(&p->in, m->bytes, first);
    bool dead = false;
    for (unsigned looks = 1; bytes == have && !dead; looks++) {
        dead = job_is_dead(p, looks);
        bytes = channel_written(&p->in, m->bytes, first);
    }
    return bytes;
}

/** Medium data from where it lies; false: it is not offered, or is in the ring, or comes there. */
static bool copy_offered(struct request *r, const struct incoming *m)
{
    struct peer *p = &job.peer[m->node];
    const char *address = (const char *)m->address;
    if (!address || r->bytes == 0 || !smartmap_reachable(p->smartmap_rank, address, r->bytes) || !channel_claim(&p->in))
        return false;
    request_unpack(r, smartmap_remote((unsigned)p->smartmap_rank, address), r->bytes);
    channel_copied(&p->in);
    return true;
}

/** Short or medium data, as it arrives; false: its sender died before the end. */
static bool copy_arriving(struct request *r, const struct incoming *m)
{
    uint64_t began = stores_begin(m->stores);
    for (size_t have = 0, now; have < m->bytes; have = now) {
        now = arrived(m, have);
        if (now == have)
            return false;
        size_t end = now < r->bytes ? now : r->bytes;
        if (end > r->moved)
            request_unpack(r, m->data + r->moved, end - r->moved);
    }
    stores_read(&job.peer[m->node].in, r->bytes, m->stores, began);
    return true;
}

/** Under the lock: a message for an active receive that is not posted. */
static void receive_message(struct request *r, const struct incoming *m)
{
    ompi_status_public_t *status = &r->super.req_status;
    bool truncated = m->bytes > r->bytes;
    if (!truncated)
        r->bytes = m->bytes;
    status->MPI_SOURCE = m->key.source;
    status->MPI_TAG = m->key.tag;
    status->_ucount = r->bytes;
    status->MPI_ERROR = truncated ? MPI_ERR_TRUNCATE : OMPI_SUCCESS;
    r->partner = m->sender;
    r->node = m->node;
    if (r->start && r->bytes >= OFFERED_LEAST_BYTES)
        sent_overwritten(&job.sent, r->start, r->bytes);
    if (m->kind == LINE_LONG)
        receive_long(r, m);
    else if (!copy_offered(r, m) && !copy_arriving(r, m))
        request_finish(r, MPI_ERR_OTHER);
    else if (m->sender)
        send_queue(r, ERRAND_DONE);
    else
        request_finish(r, status->MPI_ERROR);
}

/** Under the lock: the same for a message that has waited. */
void receive_take(struct request *r, struct arrival *a)
{
    receive_message(r, &a->message);
    free(a);
}

/** Not by opal_output, which would need memory itself. */
static void say_out_of_memory(void)
{
    char text[128];
    int bytes = snprintf(text, sizeof text, "pml/smartmap: local rank %d: out of memory for messages "
                         "that no receive takes; %zu wait\n", smartmap_rank(), job.unexpected.items);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0)
        return; /* nowhere to say it */
}

/** No receive takes it yet: keep it, with its data. */
static void keep(const struct incoming *m)
{
    bool is_long = m->kind == LINE_LONG;
    size_t bytes = is_long ? m->head : m->bytes;
    struct arrival *a = malloc(sizeof *a + bytes);
    if (!a) {
        say_out_of_memory();
        ompi_mpi_abort(&ompi_mpi_comm_world.comm, MPI_ERR_NO_MEM);
        return;
    }
    a->match.key = m->key;
    a->message = *m;
    a->message.data = a->data;
    for (size_t have = 0, now; have < bytes; have = now) {
        now = is_long ? m->head : arrived(m, have);
        if (now == have) { /* the sender died */
            free(a);
            return;
        }
        memcpy(a->data + have, m->data + have, now - have);
    }
    a->message.stores = 0;
    if (!is_long) {
        a->message.state = STATE_WHOLE;
        a->message.address = 0;
    }
    match_keep(&job.unexpected, &a->match);
}

static void message_line(int node, const struct line *l)
{
    struct incoming m = { .key = { l->communicator, l->source, l->tag },
                          .node = node, .kind = l->kind };
    if (l->kind == LINE_SHORT) {
        m.bytes = l->short_bytes;
        m.data = (const char *)l + offsetof(struct line, data);
    } else {
        m.bytes = l->bytes;
        m.sender = l->sender;
        m.address = l->address;
        size_t in_ring = m.bytes;
        if (l->kind == LINE_LONG)
            m.head = in_ring = l->head;
        m.stores = in_ring > 0 ? l->stores : 0;
        m.data = channel_take(&job.peer[node].in, l, in_ring);
        m.state = l->state;
    }
    struct match_item *item =
        job.posted.items > 0 ? match_receive(&job.posted, &m.key) : NULL;
    if (!item) {
        keep(&m);
        return;
    }
    struct request *r = (struct request *)((char *)item - offsetof(struct request, match));
    match_remove(&job.posted, item);
    r->posted = false;
    receive_message(r, &m);
}

static bool piece_line(struct channel_end *in, const struct line *l)
{
    uint64_t began = stores_begin(l->stores);
    bool more = pieces_read((struct request *)l->receiver, channel_take(in, l, l->bytes), l->bytes);
    stores_read(in, l->bytes, l->stores, began);
    return more;
}

/** Under the lock: handle a line from process `node`; true: more pieces are to come. */
bool receive_line(int node, const struct line *l)
{
    struct request *send = (struct request *)l->sender;
    switch (l->kind) {
    case LINE_DONE:
        request_finish(send, OMPI_SUCCESS);
        break;
    case LINE_ASK:
        send->partner = l->receiver;
        send->bytes = l->bytes;
        pieces_asked(send);
        break;
    case LINE_PIECE:
        return piece_line(&job.peer[node].in, l);
    default:
        message_line(node, l);
    }
    return false;
}

struct request *receive_new(struct comm *c, void *buffer, size_t count, ompi_datatype_t *type,
                            int rank, int tag)
{
    struct request *r = request_new();
    r->receive = true;
    r->buffer = buffer;
    r->count = count;
    r->type = type;
    r->comm = c;
    r->rank = rank;
    r->tag = tag;
    return r;
}

int receive_start(struct request *r)
{
    request_activate(r);
    request_prepare(r, false);
    r->match.key = (struct match_key){ r->comm->id, r->rank, r->tag };
    enter();
    struct match_item *item =
        job.unexpected.items > 0 ? match_message(&job.unexpected, &r->match.key) : NULL;
    if (item) {
        match_remove(&job.unexpected, item);
        receive_take(r, (struct arrival *)item);
    } else if (OPAL_UNLIKELY(job.any_lost) && job_lost_source(r->comm, r->rank)) {
        request_finish(r, MPI_ERR_OTHER);
    } else {
        r->posted = true;
        match_post(&job.posted, &r->match);
    }
    leave();
    return OMPI_SUCCESS;
}

/** Cancels receives that no message has met; sends go on, as ob1's do. */
int smartmap_cancel(ompi_request_t *request, int flag)
{
    struct request *r = (struct request *)request;
    enter();
    if (r->receive && !r->finished && r->posted) {
        match_remove(&job.posted, &r->match);
        r->posted = false;
        r->super.req_status._cancelled = true;
        request_finish(r, OMPI_SUCCESS);
    }
    leave();
    return OMPI_SUCCESS;
}

int smartmap_irecv_init(void *buffer, size_t count, ompi_datatype_t *type, int rank, int tag,
                        ompi_communicator_t *comm, ompi_request_t **request)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_irecv_init(buffer, count, type, rank, tag, comm, request);
    struct request *r = receive_new(c, buffer, count, type, rank, tag);
    request_retain(r, true);
    *request = &r->super;
    return OMPI_SUCCESS;
}

int smartmap_irecv(void *buffer, size_t count, ompi_datatype_t *type, int rank, int tag,
                   ompi_communicator_t *comm, ompi_request_t **request)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_irecv(buffer, count, type, rank, tag, comm, request);
    struct request *r = receive_new(c, buffer, count, type, rank, tag);
    request_retain(r, false);
    *request = &r->super;
    return receive_start(r);
}

int smartmap_recv(void *buffer, size_t count, ompi_datatype_t *type, int rank, int tag,
                  ompi_communicator_t *comm, ompi_status_public_t *status)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_recv(buffer, count, type, rank, tag, comm, status);
    struct request *r = receive_new(c, buffer, count, type, rank, tag);
    OMPI_REQUEST_INIT(&r->super, false);
    r->super.req_mpi_object.comm = comm;
    r->borrowed = true;
    receive_start(r);
    smartmap_wait_for(r);
    int error = r->super.req_status.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, r->super.req_status, false);
    request_release(r);
    return error;
}
