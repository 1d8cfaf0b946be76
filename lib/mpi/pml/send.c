/*
 * Sends: into the peer's channel at once, or as soon as it has room.
 */
#include "copy.h"
#include "pml_smartmap.h"

#include "ompi/mca/pml/base/pml_base_bsend.h"
#include "opal/runtime/opal_progress.h"

static bool write_send(struct peer *p, struct request *r)
{
    bool answered = r->mode == MCA_PML_BASE_SEND_SYNCHRONOUS;
    if (r->bytes > job.sizes.medium_bytes)
        return write_long(p, r);
    if (!write_data(p, r->comm, r->tag, r->start, r->bytes, r, answered ? (uint64_t)r : 0))
        return false;
    if (answered)
        request_await(r);
    else
        request_finish(r, OMPI_SUCCESS);
    return true;
}

/** DONE ends both requests; CLEAR lets the sender begin with pieces. */
static bool write_answer(struct peer *p, struct request *r)
{
    struct line *l = channel_lines(&p->out, 1);
    if (!l)
        return false;
    line_name(l, r->step == STEP_DONE ? LINE_DONE : LINE_CLEAR, ROUTE_NONE);
    l->sender = r->partner;
    l->receiver = (uint64_t)r;
    l->bytes = r->bytes;
    channel_post(&p->out, l, 1, 0);
    if (r->step == STEP_DONE)
        request_finish(r, r->super.req_status.MPI_ERROR);
    else
        request_await(r);
    return true;
}

static bool run_step(struct peer *p, struct request *r)
{
    switch (r->step) {
    case STEP_SEND: return write_send(p, r);
    case STEP_PIECES: return pieces_write(p, r);
    default: return write_answer(p, r);
    }
}

/** Under the lock: do this step, now or when there is room. */
void send_queue(struct request *r, enum step step)
{
    struct peer *p = &job.peer[r->node];
    r->step = step;
    r->next = NULL;
    if (OPAL_UNLIKELY(p->lost)) {
        request_finish(r, MPI_ERR_OTHER);
        return;
    }
    if (!p->first && run_step(p, r))
        return;
    job.queued = true;
    if (p->last)
        p->last->next = r;
    else
        p->first = r;
    p->last = r;
}

/** Under the lock: write what waits for a peer, in order, while there is room. */
void send_queued(struct peer *p)
{
    for (struct request *r; (r = p->first) != NULL;) {
        struct request *next = r->next; /* a finished request uses it otherwise */
        if (!run_step(p, r))
            return;
        p->first = next;
        if (!next)
            p->last = NULL;
    }
}

static struct request *send_new(struct comm *c, const void *buffer, size_t count,
                                ompi_datatype_t *type, int rank, int tag,
                                mca_pml_base_send_mode_t mode)
{
    struct request *r = request_new();
    r->receive = false;
    r->mode = mode;
    r->buffer = (void *)buffer;
    r->count = count;
    r->type = type;
    r->comm = c;
    r->rank = rank;
    r->tag = tag;
    r->node = c->node[rank];
    return r;
}

/**
 * A piece of the user's buffer; what is done may have to be noticed first.  Not
 * under the lock: where there is no room, the search itself runs Open MPI's
 * progress, of which non-blocking collectives call this module.
 */
static char *buffer_piece(size_t bytes)
{
    leave();
    char *piece = mca_pml_base_bsend_request_alloc_buf(bytes);
    if (!piece) {
        opal_progress();
        piece = mca_pml_base_bsend_request_alloc_buf(bytes);
    }
    enter();
    return piece;
}

/**
 * A copy of the data in the user's buffer goes instead of it, by a request of
 * its own; the user's is complete.  The lock is released meanwhile.
 */
static int start_buffered(struct request *r)
{
    char *copy = buffer_piece(r->bytes);
    if (!copy) {
        r->finished = true;
        r->super.req_state = OMPI_REQUEST_INACTIVE;
        return MPI_ERR_BUFFER;
    }
    request_pack(r, copy, r->bytes, 0);
    struct request *carrier = send_new(r->comm, copy, r->bytes, &ompi_mpi_byte.dt, r->rank,
                                       r->tag, MCA_PML_BASE_SEND_STANDARD);
    request_retain(carrier, false);
    request_activate(carrier);
    request_prepare(carrier, true);
    carrier->copy = copy;
    carrier->free_called = true;
    send_queue(carrier, STEP_SEND);
    request_finish(r, OMPI_SUCCESS);
    return OMPI_SUCCESS;
}

int send_start(struct request *r)
{
    int error = OMPI_SUCCESS;
    request_activate(r);
    request_prepare(r, true);
    enter();
    struct peer *p = &job.peer[r->node];
    if (r->mode != MCA_PML_BASE_SEND_BUFFERED || p->lost)
        send_queue(r, STEP_SEND);
    else if (r->bytes <= job.sizes.medium_bytes && !p->first && write_send(p, r))
        ; /* it is gone from the user's buffer */
    else
        error = start_buffered(r);
    leave();
    return error;
}

/** A short or medium message without a request, where nothing waits before it. */
static bool send_now(struct comm *c, const void *buffer, size_t count, ompi_datatype_t *type,
                     int rank, int tag)
{
    size_t size;
    ompi_datatype_type_size(type, &size);
    if (size * count > job.sizes.medium_bytes ||
        !ompi_datatype_is_contiguous_memory_layout(type, count == 1 ? 1 : 2))
        return false;
    ptrdiff_t lb = 0, extent;
    if (OPAL_UNLIKELY(type->super.true_lb != 0))
        ompi_datatype_get_true_extent(type, &lb, &extent);
    fetch_short((const char *)buffer + lb, size * count, FETCHED_BYTES);
    enter();
    struct peer *p = &job.peer[c->node[rank]];
    bool written = !p->first && OPAL_LIKELY(!p->lost) &&
                   write_data(p, c, tag, (const char *)buffer + lb, size * count, NULL, 0);
    leave();
    return written;
}

int smartmap_isend_init(const void *buffer, size_t count, ompi_datatype_t *type, int rank,
                        int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                        ompi_request_t **request)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_isend_init(buffer, count, type, rank, tag, mode, comm, request);
    struct request *r = send_new(c, buffer, count, type, rank, tag, mode);
    request_retain(r, true);
    *request = &r->super;
    return OMPI_SUCCESS;
}

int smartmap_isend(const void *buffer, size_t count, ompi_datatype_t *type, int rank, int tag,
                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                   ompi_request_t **request)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_isend(buffer, count, type, rank, tag, mode, comm, request);
    if (mode != MCA_PML_BASE_SEND_SYNCHRONOUS && send_now(c, buffer, count, type, rank, tag)) {
        *request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    struct request *r = send_new(c, buffer, count, type, rank, tag, mode);
    request_retain(r, false);
    int error = send_start(r);
    if (error == OMPI_SUCCESS)
        *request = &r->super;
    else
        request_release(r);
    return error;
}

int smartmap_send(const void *buffer, size_t count, ompi_datatype_t *type, int rank, int tag,
                  mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_send(buffer, count, type, rank, tag, mode, comm);
    if (mode != MCA_PML_BASE_SEND_SYNCHRONOUS && send_now(c, buffer, count, type, rank, tag))
        return OMPI_SUCCESS;
    struct request *r = send_new(c, buffer, count, type, rank, tag, mode);
    OMPI_REQUEST_INIT(&r->super, false);
    r->super.req_mpi_object.comm = comm;
    r->borrowed = true;
    int error = send_start(r);
    if (error == OMPI_SUCCESS) {
        smartmap_wait_for(r);
        error = r->super.req_status.MPI_ERROR;
    }
    request_release(r);
    return error;
}
