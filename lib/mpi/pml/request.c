/*
 * Requests: their life, and their data in and out of channels.
 *
 * A request is finished under the lock.  With a callback, or freed by the user
 * before, it goes to job.deferred for what must be done without the lock.
 */
#include "pml_smartmap.h"

#include "ompi/mca/pml/base/pml_base_bsend.h"
#include "ompi/runtime/mpiruntime.h"
#include "copy.h"
#include "opal/util/output.h"

static void construct(struct request *r)
{
    r->super.req_type = OMPI_REQUEST_PML;
    r->super.req_start = smartmap_start;
    r->super.req_free = smartmap_request_free;
    r->super.req_cancel = smartmap_cancel;
    OBJ_CONSTRUCT(&r->convertor, opal_convertor_t);
}

static void destruct(struct request *r)
{
    OBJ_DESTRUCT(&r->convertor);
}

OBJ_CLASS_INSTANCE(smartmap_request_t, ompi_request_t, construct, destruct);

struct request *request_new(void)
{
    struct request *r = (struct request *)opal_free_list_get(&job.requests);
    if (OPAL_UNLIKELY(!r)) {
        opal_output(0, "pml/smartmap: out of memory for requests");
        ompi_mpi_abort(&ompi_mpi_comm_world.comm, MPI_ERR_NO_MEM);
    }
    r->finished = true;
    r->free_called = r->posted = r->awaits = r->prepared = r->borrowed = false;
    r->copy = NULL;
    return r;
}

/** For all but blocking calls: the user may free what the request refers to. */
void request_retain(struct request *r, bool persistent)
{
    OMPI_REQUEST_INIT(&r->super, persistent);
    r->super.req_mpi_object.comm = r->comm->ompi;
    r->borrowed = false;
    OBJ_RETAIN(r->comm->ompi);
    OMPI_DATATYPE_RETAIN(r->type);
}

/** Not under the lock: the communicator may end with it. */
void request_release(struct request *r)
{
    OMPI_REQUEST_FINI(&r->super);
    if (r->prepared)
        opal_convertor_cleanup(&r->convertor);
    if (!r->borrowed) {
        OMPI_DATATYPE_RELEASE(r->type);
        OBJ_RELEASE(r->super.req_mpi_object.comm);
    }
    opal_free_list_return(&job.requests, &r->super.super);
}

void request_activate(struct request *r)
{
    r->finished = false;
    r->super.req_complete = REQUEST_PENDING;
    r->super.req_state = OMPI_REQUEST_ACTIVE;
    r->super.req_status = (ompi_status_public_t){ .MPI_SOURCE = MPI_ANY_SOURCE,
                                                  .MPI_TAG = MPI_ANY_TAG,
                                                  .MPI_ERROR = OMPI_SUCCESS };
}

/** Under the lock: the peer has to do the next step; it may die instead. */
void request_await(struct request *r)
{
    struct request **first = &job.peer[r->node].awaiting;
    r->awaits = true;
    r->before = NULL;
    r->after = *first;
    if (*first)
        (*first)->before = r;
    *first = r;
}

/** Under the lock: it has done it. */
void request_answered(struct request *r)
{
    if (!r->awaits)
        return;
    r->awaits = false;
    if (r->before)
        r->before->after = r->after;
    else
        job.peer[r->node].awaiting = r->after;
    if (r->after)
        r->after->before = r->before;
}

/** Under the lock; no other may touch the request afterwards. */
void request_finish(struct request *r, int error)
{
    request_answered(r);
    if (r->copy)
        mca_pml_base_bsend_request_free(r->copy);
    r->copy = NULL;
    r->super.req_status.MPI_ERROR = error;
    r->finished = true;
    if (OPAL_LIKELY(!r->super.req_complete_cb && !r->free_called)) {
        ompi_request_complete(&r->super, true);
        return;
    }
    r->next = job.deferred;
    job.deferred = r;
}

void smartmap_run_deferred(struct request *list)
{
    for (struct request *next, *r = list; r; r = next) {
        bool freed = r->free_called;
        next = r->next;
        if (r->super.req_complete_cb)
            ompi_request_complete(&r->super, true);
        if (freed)
            request_release(r);
    }
}

int smartmap_request_free(ompi_request_t **request)
{
    struct request *r = (struct request *)*request;
    enter();
    bool finished = r->finished;
    r->free_called = !finished;
    leave();
    if (finished)
        request_release(r);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

int smartmap_start(size_t count, ompi_request_t **requests)
{
    int error = OMPI_SUCCESS;
    for (size_t i = 0; i < count && error == OMPI_SUCCESS; i++) {
        struct request *r = (struct request *)requests[i];
        if (!r || r->super.req_type != OMPI_REQUEST_PML)
            continue;
        if (r->super.req_start != smartmap_start)
            error = BASE.pml_start(1, &requests[i]);
        else
            error = r->receive ? receive_start(r) : send_start(r);
    }
    return error;
}

/** Where the data lies; `bytes` become those that are to be moved. */
void request_prepare(struct request *r, bool send)
{
    size_t size;
    ptrdiff_t lb, extent;
    ompi_datatype_type_size(r->type, &size);
    r->bytes = size * r->count;
    r->moved = 0;
    r->start = r->buffer;
    if (r->bytes == 0)
        return;
    if (ompi_datatype_is_contiguous_memory_layout(r->type, r->count == 1 ? 1 : 2)) {
        ompi_datatype_get_true_extent(r->type, &lb, &extent);
        r->start += lb;
        return;
    }
    r->start = NULL;
    r->by_blocks = strided_describe(&r->blocks, r->buffer, r->count, r->type);
    if (r->by_blocks)
        return;
    if (r->prepared)
        opal_convertor_cleanup(&r->convertor);
    r->prepared = true;
    if (send)
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &r->type->super,
                                                 r->count, r->buffer, 0, &r->convertor);
    else
        opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &r->type->super,
                                                 r->count, r->buffer, 0, &r->convertor);
}

typedef int32_t step_fn(opal_convertor_t *, struct iovec *, uint32_t *, size_t *);

/** Convertors may stop in between, and before an element that would be split. */
static size_t convert(struct request *r, step_fn *step, char *packed, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        struct iovec part = { packed + at, bytes - at };
        uint32_t parts = 1;
        size_t moved = bytes - at;
        if (step(&r->convertor, &part, &parts, &moved) < 0 || moved == 0)
            break;
        at += moved;
    }
    return at;
}

/** The next bytes of a send: how many there were; none where the next element does not fit. */
size_t request_pack(struct request *r, char *to, size_t bytes, unsigned stores)
{
    size_t moved = bytes;
    if (r->start)
        stores_copy(to, r->start + r->moved, bytes, stores);
    else if (r->by_blocks)
        strided_pack(&r->blocks, r->moved, to, bytes);
    else
        moved = convert(r, opal_convertor_pack, to, bytes);
    r->moved += moved;
    return moved;
}

/** The next bytes of a receive. */
void request_unpack(struct request *r, const char *from, size_t bytes)
{
    if (r->start)
        copy_in_pieces(r->start + r->moved, from, bytes);
    else if (r->by_blocks)
        strided_unpack(&r->blocks, r->moved, from, bytes);
    else
        convert(r, opal_convertor_unpack, (char *)from, bytes);
    r->moved += bytes;
}
