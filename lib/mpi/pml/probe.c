/*
 * Probes, matched receives, and the dump of what waits.
 */
#include "pml_smartmap.h"

#include <stdlib.h>

#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

static void set_status(const struct arrival *a, ompi_status_public_t *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = a->message.key.source;
    status->MPI_TAG = a->message.key.tag;
    status->_ucount = a->message.bytes;
    status->_cancelled = 0;
}

/** Find a message; with `message`, take it from the unexpected ones. */
static bool find_message(struct comm *c, int rank, int tag, struct arrival **message,
                 ompi_status_public_t *status)
{
    struct match_key key = { c->id, rank, tag };
    enter();
    struct match_item *item = match_message(&job.unexpected, &key);
    if (item) {
        set_status((struct arrival *)item, status);
        if (message) {
            match_remove(&job.unexpected, item);
            *message = (struct arrival *)item;
        }
    }
    leave();
    return item != NULL;
}

static bool poll_for_message(struct comm *c, int rank, int tag, struct arrival **message,
                              ompi_status_public_t *status)
{
    if (find_message(c, rank, tag, message, status))
        return true;
    opal_progress(); /* drives ours, too */
    return find_message(c, rank, tag, message, status);
}

/** Nothing is there: who waits for it in a loop of probes must see that it cannot come. */
static int error_of_none(const struct comm *c, int rank)
{
    bool lost = OPAL_UNLIKELY(job.any_lost) && job_lost_source(c, rank);
    return lost ? MPI_ERR_OTHER : OMPI_SUCCESS;
}

/** The message holds its communicator, which the program may free before it receives. */
static ompi_message_t *wrap(struct comm *c, struct arrival *a)
{
    ompi_message_t *message = ompi_message_alloc();
    message->comm = c->ompi;
    OBJ_RETAIN(c->ompi);
    message->req_ptr = a;
    message->peer = a->message.key.source;
    message->count = a->message.bytes;
    return message;
}

int smartmap_iprobe(int rank, int tag, ompi_communicator_t *comm, int *matched,
                    ompi_status_public_t *status)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_iprobe(rank, tag, comm, matched, status);
    *matched = poll_for_message(c, rank, tag, NULL, status);
    return *matched ? OMPI_SUCCESS : error_of_none(c, rank);
}

int smartmap_probe(int rank, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_probe(rank, tag, comm, status);
    while (!poll_for_message(c, rank, tag, NULL, status))
        if (job_lost_source(c, rank))
            return MPI_ERR_OTHER;
    return OMPI_SUCCESS;
}

int smartmap_improbe(int rank, int tag, ompi_communicator_t *comm, int *matched,
                     ompi_message_t **message, ompi_status_public_t *status)
{
    struct comm *c = comm_of(comm);
    struct arrival *a;
    if (!c)
        return BASE.pml_improbe(rank, tag, comm, matched, message, status);
    *matched = poll_for_message(c, rank, tag, &a, status);
    if (!*matched)
        return error_of_none(c, rank);
    *message = wrap(c, a);
    return OMPI_SUCCESS;
}

int smartmap_mprobe(int rank, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                    ompi_status_public_t *status)
{
    struct comm *c = comm_of(comm);
    struct arrival *a;
    if (!c)
        return BASE.pml_mprobe(rank, tag, comm, message, status);
    while (!poll_for_message(c, rank, tag, &a, status))
        if (job_lost_source(c, rank))
            return MPI_ERR_OTHER;
    *message = wrap(c, a);
    return OMPI_SUCCESS;
}

/** Receive a message that a probe has taken; from now on the request holds the communicator. */
static void receive_probed(struct request *r, ompi_message_t **message)
{
    struct arrival *a = (*message)->req_ptr;
    OBJ_RELEASE((*message)->comm);
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    request_activate(r);
    request_prepare(r, false);
    enter();
    receive_take(r, a);
    leave();
}

int smartmap_imrecv(void *buffer, size_t count, ompi_datatype_t *type,
                    ompi_message_t **message, ompi_request_t **request)
{
    struct comm *c = comm_of((*message)->comm);
    if (!c)
        return BASE.pml_imrecv(buffer, count, type, message, request);
    struct request *r = receive_new(c, buffer, count, type, MPI_ANY_SOURCE, MPI_ANY_TAG);
    request_retain(r, false);
    *request = &r->super;
    receive_probed(r, message);
    return OMPI_SUCCESS;
}

int smartmap_mrecv(void *buffer, size_t count, ompi_datatype_t *type,
                   ompi_message_t **message, ompi_status_public_t *status)
{
    struct comm *c = comm_of((*message)->comm);
    if (!c)
        return BASE.pml_mrecv(buffer, count, type, message, status);
    ompi_request_t *request;
    smartmap_imrecv(buffer, count, type, message, &request);
    struct request *r = (struct request *)request;
    smartmap_wait_for(r);
    int error = request->req_status.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, request->req_status, false);
    request_release(r);
    return error;
}

/** For debuggers and Open MPI's own dump: how much waits, and for what. */
int smartmap_dump(ompi_communicator_t *comm, int verbose)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return BASE.pml_dump(comm, verbose);
    size_t posted = 0, unexpected = 0;
    enter();
    for (struct match_item *i = job.posted.all.first; i; i = i->all.next)
        posted += i->key.communicator == c->id;
    for (struct match_item *i = job.unexpected.all.first; i; i = i->all.next)
        unexpected += i->key.communicator == c->id;
    leave();
    opal_output(0, "pml/smartmap: %s, rank %d of %d: %zu receives posted, %zu messages unexpected",
                comm->c_name, c->rank, c->size, posted, unexpected);
    return OMPI_SUCCESS;
}
