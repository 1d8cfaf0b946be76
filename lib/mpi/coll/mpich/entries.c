/*
 * The collectives as programs call them: by a communicator's team, where it has
 * one that is ready, else by the MPI.  Arguments that no collective can have go
 * to the MPI as well, which says what is wrong with them.
 */
#include "job.h"

#define TYPE MPI_Datatype
#define TYPES const MPI_Datatype *
#define OP MPI_Op

/** The team for a collective on `comm`; NULL: the MPI's own collective. */
static inline struct team *team_for(MPI_Comm comm)
{
    struct team *t = comm_team(comm);
    return t && team_ready(t, comm) ? t : NULL;
}

/** Errors of ours reach the program as those of the MPI do. */
static int finish(MPI_Comm comm, int error)
{
    if (unlikely(error != MPI_SUCCESS))
        real.Comm_call_errhandler(comm, error);
    return error;
}

int MPI_Barrier(MPI_Comm comm)
{
    REAL_NEEDED();
    struct team *t = team_for(comm);
    return t ? finish(comm, smartmap_barrier(t)) : real.Barrier(comm);
}

static bool is_count(int64_t count, MPI_Datatype type)
{
    return count >= 0 && type != MPI_DATATYPE_NULL;
}

static bool are_counts(const struct team *t, struct numbers counts, MPI_Datatype type)
{
    bool valid = counts.array && type != MPI_DATATYPE_NULL;
    for (int r = 0; valid && r < t->size; r++)
        valid = number(counts, r) >= 0;
    return valid;
}

static bool are_typed(const struct team *t, struct numbers counts, const MPI_Datatype *types)
{
    bool valid = counts.array && types;
    for (int r = 0; valid && r < t->size; r++)
        valid = is_count(number(counts, r), types[r]);
    return valid;
}

static bool is_rank(const struct team *t, int rank) { return rank >= 0 && rank < t->size; }

/* Of each collective: what its arguments are in every program that is right. */
#define OUT (is_count(scount, stype))
#define IN (is_count(rcount, rtype))
#define MANY_OUT (are_counts(t, MANY(scounts), stype))
#define MANY_IN (are_counts(t, MANY(rcounts), rtype))
#define AT_ROOT (t->rank == root)
#define SENDS(out) (send == MPI_IN_PLACE || (out))
#define ROOTED(out, in) (is_rank(t, root) && (out) && (!AT_ROOT || (in)))
#define VALID_bcast (is_rank(t, root) && is_count(count, type))
#define VALID_gather ROOTED((send == MPI_IN_PLACE ? AT_ROOT : OUT), IN)
#define VALID_gatherv ROOTED((send == MPI_IN_PLACE ? AT_ROOT : OUT), MANY_IN)
#define VALID_scatter ROOTED((receive == MPI_IN_PLACE ? AT_ROOT : IN), OUT)
#define VALID_scatterv ROOTED((receive == MPI_IN_PLACE ? AT_ROOT : IN), MANY_OUT)
#define VALID_allgather (SENDS(OUT) && IN)
#define VALID_allgatherv (SENDS(OUT) && MANY_IN)
#define VALID_alltoall (SENDS(OUT) && IN)
#define VALID_alltoallv (SENDS(MANY_OUT) && MANY_IN)
#define VALID_alltoallw                                  \
    (SENDS(are_typed(t, MANY(scounts), stypes)) && are_typed(t, MANY(rcounts), rtypes))
#define VALID_reduce (is_rank(t, root) && is_count(count, type) && op != MPI_OP_NULL)
#define VALID_allreduce (is_count(count, type) && op != MPI_OP_NULL)
#define VALID_reduce_scatter (are_counts(t, MANY(rcounts), type) && op != MPI_OP_NULL)
#define VALID_reduce_scatter_block (is_count(rcount, type) && op != MPI_OP_NULL)
#define VALID_scan VALID_allreduce
#define VALID_exscan VALID_allreduce

#define DEFINE_AS(function, name, parameters, arguments, core)                            \
    int MPI_##function(parameters, MPI_Comm comm)                                         \
    {                                                                                     \
        REAL_NEEDED();                                                                    \
        struct team *t = team_for(comm);                                                  \
        int error = t && VALID_##name ? smartmap_##name(t, core) : NOT_SERVED;                 \
        return likely(error != NOT_SERVED) ? finish(comm, error)                          \
                                           : real.function(arguments, comm);              \
    }

#define COUNT int
#define COUNTS const int *
#define DISPLACEMENTS const int *
#define MANY(numbers_) ((struct numbers){ numbers_, false })
#define DEFINE(name, Name, parameters, arguments, core) \
    DEFINE_AS(Name, name, LIST(parameters), LIST(arguments), LIST(core))
COLLECTIVES(DEFINE)
#undef COUNT
#undef COUNTS
#undef DISPLACEMENTS
#undef MANY
#undef DEFINE

#define COUNT MPI_Count
#define COUNTS const MPI_Count *
#define DISPLACEMENTS const MPI_Aint *
#define MANY(numbers_) ((struct numbers){ numbers_, true })
#define DEFINE(name, Name, parameters, arguments, core) \
    DEFINE_AS(Name##_c, name, LIST(parameters), LIST(arguments), LIST(core))
COLLECTIVES(DEFINE)

/** Where the processes of a session's communicator have a world is not known alike to all. */
int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                               MPI_Errhandler handler, MPI_Comm *comm)
{
    REAL_NEEDED();
    int error = real.Comm_create_from_group(group, tag, info, handler, comm);
    if (error == MPI_SUCCESS && *comm != MPI_COMM_NULL)
        comm_refuse(*comm);
    return error;
}
