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
#include "opal/util/output.h"

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
    if (!route_has_address(m->route))
        return false;
    if (m->route == ROUTE_SELF)
        request_unpack(r, address, bytes);
    else if (m->route == ROUTE_LINUX || !smartmap_reachable(p->smartmap_rank, address, bytes))
        return r->start && read_by_linux(p, r->start + r->moved, (uint64_t)address, bytes);
    else if (route_keeps(m->route) && r->start)
        copy_and_keep(r->start + r->moved, smartmap_remote((unsigned)p->smartmap_rank, address), bytes);
    else
        request_unpack(r, smartmap_remote((unsigned)p->smartmap_rank, address), bytes);
    return true;
}

/** Long data: who gets pieces is ready for them before it copies the head. */
static void receive_long(struct request *r, const struct incoming *m)
{
    size_t head = m->head < r->bytes ? m->head : r->bytes;
    bool in_pieces = head < r->bytes && !job.peer[m->node].lost && route_in_pieces(m->route, r->borrowed);
    if (in_pieces)
        send_queue(r, STEP_CLEAR);
    uint64_t began = stores_begin(m->stores);
    if (head > 0)
        request_unpack(r, m->data, head);
    stores_read(&job.peer[m->node].in, head, m->stores, began);
    if (!in_pieces)
        send_queue(r, head == r->bytes || copy_rest(r, m) ? STEP_DONE : STEP_CLEAR);
}

/** More than `have` bytes of data that is being written, for which it waits; `have`: the sender died. */
static __attribute__((noinline)) size_t await_arrival(const struct incoming *m, size_t have)
{
    const struct peer *p = &job.peer[m->node];
    size_t first = route_first(m->route, m->bytes), bytes = channel_written(&p->in, m->bytes, first);
    bool dead = false;
    for (unsigned polls = 1; bytes == have && !dead; polls++) {
        dead = job_is_dead(p, polls);
        bytes = channel_written(&p->in, m->bytes, first);
    }
    return bytes;
}

/** More than `have` bytes of short or medium data; `have`: the sender died. */
static inline size_t arrived(const struct incoming *m, size_t have)
{
    return route_first(m->route, m->bytes) == m->bytes ? m->bytes : await_arrival(m, have);
}

/** Medium data from where it lies; false: it is not offered, or is in the ring, or comes there. */
static bool copy_offered(struct request *r, const struct incoming *m)
{
    struct peer *p = &job.peer[m->node];
    const char *address = (const char *)m->address;
    if (m->route != ROUTE_OFFERED || r->bytes == 0 || !smartmap_reachable(p->smartmap_rank, address, r->bytes) || !channel_claim(&p->in))
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
    if (route_is_long(m->route))
        receive_long(r, m);
    else if (!copy_offered(r, m) && !copy_arriving(r, m))
        request_finish(r, MPI_ERR_OTHER);
    else if (m->sender)
        send_queue(r, STEP_DONE);
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
static void report_out_of_memory(void)
{
    char text[128];
    int bytes = snprintf(text, sizeof text, "pml/smartmap: local rank %d: out of memory for messages "
                         "that no receive takes; %zu wait\n", smartmap_rank(), job.unexpected.items);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0)
        return; /* nowhere to report it */
}

/** No receive takes it yet: keep it, with its data. */
static void keep(const struct incoming *m)
{
    bool is_long = route_is_long(m->route);
    size_t bytes = is_long ? m->head : m->bytes;
    struct arrival *a = malloc(sizeof *a + bytes);
    if (!a) {
        report_out_of_memory();
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
    if (!is_long)
        a->message.route = ROUTE_RING;
    match_keep(&job.unexpected, &a->match);
}

/** A line that no sender writes: memory is overwritten, and more than this message may be wrong. */
static void refuse(int node, const struct line *l)
{
    opal_output(0, "pml/smartmap: local rank %d: local rank %d has sent a message whose route is not possible (%u)",
                smartmap_rank(), job.peer[node].smartmap_rank, l->route);
    ompi_mpi_abort(&ompi_mpi_comm_world.comm, MPI_ERR_INTERN);
}

/** The message that a line begins; false: it names no route, or one that its sizes do not allow. */
static bool read_message(struct incoming *m, int node, const struct line *l)
{
    size_t medium_bytes = job.sizes.medium_bytes;
    if (m->route == ROUTE_LINES) {
        m->bytes = l->short_bytes;
        m->data = (const char *)l + offsetof(struct line, data);
        return route_is_possible(m->route, node == job.self, m->bytes, 0, 0, medium_bytes);
    }
    m->bytes = l->bytes;
    m->sender = l->sender;
    m->address = l->address;
    m->head = route_has_head(m->route) ? l->head : 0;
    if (OPAL_UNLIKELY(!route_is_possible(m->route, node == job.self, m->bytes, m->head, m->address, medium_bytes)))
        return false;
    size_t in_ring = route_is_long(m->route) ? m->head : m->bytes;
    m->stores = in_ring > 0 ? l->stores : 0;
    m->data = channel_take(&job.peer[node].in, l, in_ring);
    return true;
}

static void message_line(int node, const struct line *l)
{
    struct incoming m = { .key = { l->communicator, l->source, l->tag }, .node = node, .route = l->route };
    if (OPAL_UNLIKELY(!read_message(&m, node, l))) {
        refuse(node, l);
        return;
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
    case LINE_CLEAR:
        send->partner = l->receiver;
        send->bytes = l->bytes;
        pieces_cleared(send);
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
