/*
 * One module per communicator: when it serves, and what it hands to others.
 *
 * A communicator is served when all its processes left a card (card.c), which
 * every rank sees alike.  Its ranks meet at the first collective (meet.c), over
 * the component that would have served it.
 */
#include "component.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opal/util/output.h"

#include "collectives.h"

#define COUNT int
#define COUNTS const int *
#define DISPLACEMENTS const int *
#define TYPE ompi_datatype_t *
#define TYPES ompi_datatype_t *const *
#define OP ompi_op_t *
#define MANY(array) ((struct numbers){ array, false })

typedef struct smartmap_module_t {
    mca_coll_base_module_t super;
    struct team team;
    mca_coll_base_comm_coll_t previous; /* who serves what we do not */
} smartmap_module_t;

static void construct(smartmap_module_t *m)
{
    memset(&m->team, 0, sizeof m->team);
    memset(&m->previous, 0, sizeof m->previous);
}

#define WITH_BARRIER(X) X(barrier, , , , ) COLLECTIVES(X)

static void destruct(smartmap_module_t *m)
{
    team_end(&m->team);
#define DROP(name, ...)                            \
    if (m->previous.coll_##name##_module)          \
        OBJ_RELEASE(m->previous.coll_##name##_module);
    WITH_BARRIER(DROP)
#undef DROP
}

OBJ_CLASS_DECLARATION(smartmap_module_t);
OBJ_CLASS_INSTANCE(smartmap_module_t, mca_coll_base_module_t, construct, destruct);

static int enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
#define KEEP(name, ...)                                                            \
    if (!comm->c_coll->coll_##name || !comm->c_coll->coll_##name##_module)      \
        return OMPI_ERR_NOT_AVAILABLE;
    WITH_BARRIER(KEEP)
#undef KEEP
    m->previous = *comm->c_coll;
#define KEEP(name, ...) OBJ_RETAIN(m->previous.coll_##name##_module);
    WITH_BARRIER(KEEP)
#undef KEEP
    return OMPI_SUCCESS;
}

/** Ours if the team is ready, else by the component that would have served it. */
#define DEFINE(name, Name, parameters, arguments, core)                                   \
    static int serve_##name(parameters, ompi_communicator_t *comm,                        \
                            mca_coll_base_module_t *module)                               \
    {                                                                                     \
        smartmap_module_t *m = (smartmap_module_t *)module;                               \
        int error = team_ready(&m->team, comm) ? smartmap_##name(&m->team, core)          \
                                               : NOT_SERVED;                              \
        if (OPAL_LIKELY(error != NOT_SERVED))                                             \
            return error;                                                                 \
        return m->previous.coll_##name(arguments, comm, m->previous.coll_##name##_module); \
    }
COLLECTIVES(DEFINE)
#undef DEFINE

static int serve_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    if (OPAL_LIKELY(team_ready(&m->team, comm)))
        return smartmap_barrier(&m->team);
    return m->previous.coll_barrier(comm, m->previous.coll_barrier_module);
}

mca_coll_base_module_t *smartmap_comm_query(ompi_communicator_t *comm, int *priority)
{
    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2 ||
        ompi_comm_size(comm) > SMARTMAP_MAX_RANKS ||
        ompi_group_have_remote_peers(comm->c_local_group) ||
        mca_coll_smartmap_component.priority < 0 || !smartmap_all_left_cards(comm))
        return NULL;
    smartmap_module_t *m = OBJ_NEW(smartmap_module_t);
    if (!m)
        return NULL;
    team_start(&m->team, ompi_comm_rank(comm), ompi_comm_size(comm));
    m->super.coll_module_enable = enable;
#define SERVE(name, ...) m->super.coll_##name = serve_##name;
    WITH_BARRIER(SERVE)
#undef SERVE
    *priority = mca_coll_smartmap_component.priority;
    return &m->super;
}

int smartmap_gather_plainly(struct team *t, port_comm_t comm, const void *mine, int bytes,
                            void *all)
{
    smartmap_module_t *m = (smartmap_module_t *)((char *)t - offsetof(smartmap_module_t, team));
    return m->previous.coll_allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm,
                                      m->previous.coll_allgather_module);
}

void smartmap_abort(port_comm_t comm)
{
    ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
}

void smartmap_report_fallback(port_comm_t comm)
{
    if (mca_coll_smartmap_component.verbose)
        smartmap_say("%s falls back: not all ranks reach each other", comm->c_name);
}

void smartmap_say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    opal_output(0, "coll/smartmap: %s", line);
}
