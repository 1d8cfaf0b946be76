/*
 * Communicators: which are ours, and where their ranks are.
 *
 * A communicator is ours when all its processes are of this job, and this job's
 * processes reach each other.  Each member finds the same.
 */
#include "pml_smartmap.h"

#include <stdlib.h>

#include "ompi/proc/proc.h"

/** A process's index in this job, or -1. */
static int node_of(const ompi_proc_t *proc)
{
    opal_process_name_t name = proc->super.proc_name;
    return name.jobid == job.id && name.vpid < job.sizes.processes ? (int)name.vpid : -1;
}

static bool all_ours(ompi_group_t *group)
{
    for (int r = 0; r < ompi_group_size(group); r++)
        if (node_of(ompi_group_peer_lookup(group, r)) < 0)
            return false;
    return true;
}

/** Open MPI 5 numbers the communicators of sessions locally: those stay ob1's. */
static bool has_common_index(const ompi_communicator_t *comm)
{
#if OMPI_MAJOR_VERSION >= 5
    if (!OMPI_COMM_IS_GLOBAL_INDEX(comm))
        return false;
#endif
    return COMM_INDEX(comm) < COMMUNICATORS;
}

static struct comm *describe(ompi_communicator_t *comm)
{
    ompi_group_t *peers = comm->c_remote_group;
    int size = ompi_group_size(peers);
    struct comm *c = malloc(sizeof *c + (size_t)size * sizeof c->node[0]);
    if (!c) /* the other members would wait for us */
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    *c = (struct comm){ .ompi = comm, .id = (uint16_t)COMM_INDEX(comm), .size = size,
                        .rank = (uint16_t)ompi_comm_rank(comm) };
    for (int r = 0; r < size; r++)
        c->node[r] = (uint16_t)node_of(ompi_group_peer_lookup(peers, r));
    return c;
}

int smartmap_add_comm(ompi_communicator_t *comm)
{
    int error = BASE.pml_add_comm(comm);
    if (error != OMPI_SUCCESS)
        return error;
    if (comm == &ompi_mpi_comm_world.comm)
        job_meet(comm);
    if (job.ready && comm != &ompi_mpi_comm_null.comm && has_common_index(comm) &&
        all_ours(comm->c_local_group) && all_ours(comm->c_remote_group)) {
        struct comm *c = describe(comm);
        enter();
        job.comm[c->id] = c;
        leave();
    }
    return OMPI_SUCCESS;
}

/** Messages of an erroneous program must not reach the index's next user. */
static void drop_unexpected(const struct comm *c)
{
    struct match_item *next;
    for (struct match_item *item = job.unexpected.all.first; item; item = next) {
        next = item->all.next;
        if (item->key.communicator == c->id) {
            match_remove(&job.unexpected, item);
            free(item);
        }
    }
}

int smartmap_del_comm(ompi_communicator_t *comm)
{
    struct comm *c = comm_of(comm);
    if (c && c->ompi == comm) {
        enter();
        drop_unexpected(c);
        job.comm[c->id] = NULL;
        leave();
        free(c);
    }
    return BASE.pml_del_comm(comm);
}
