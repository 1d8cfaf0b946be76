/*
 * The collectives as programs call them: by a communicator's team, where it has
 * one that is ready, else by the MPI.  Arguments that no collective can have go
 * to the MPI as well, which reports what is wrong with them.
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

/** Predefined types have no addresses of their own, so their data is somewhere. */
static bool is_data(const void *buffer, int64_t count, MPI_Datatype type)
{
    bool is_predefined = (unsigned)type >> 30 == 1; /* the handle's kind, in MPICH's ABI */
    return is_count(count, type) && buffer != MPI_IN_PLACE &&
           (buffer || count == 0 || !is_predefined);
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
#define AT_ROOT (t->rank == root)
#define OUT is_data(send, scount, stype)
#define IN is_data(receive, rcount, rtype)
#define MANY_OUT (send != MPI_IN_PLACE && are_counts(t, MANY(scounts), stype))
#define MANY_IN (receive != MPI_IN_PLACE && are_counts(t, MANY(rcounts), rtype))
#define TYPED_OUT (send != MPI_IN_PLACE && are_typed(t, MANY(scounts), stypes))
#define TYPED_IN (receive != MPI_IN_PLACE && are_typed(t, MANY(rcounts), rtypes))
#define OR_IN_PLACE(out) (send == MPI_IN_PLACE || (out))
#define GATHERS(in) \
    (is_rank(t, root) && (AT_ROOT ? OR_IN_PLACE(OUT) && (in) : OUT))
#define SCATTERS(out) \
    (is_rank(t, root) && (AT_ROOT ? (receive == MPI_IN_PLACE || IN) && (out) : IN))
#define REDUCES(count) \
    (op != MPI_OP_NULL && OR_IN_PLACE(is_data(send, count, type)) && is_data(receive, count, type))

#define VALID_bcast (is_rank(t, root) && is_data(buffer, count, type))
#define VALID_gather GATHERS(IN)
#define VALID_gatherv GATHERS(MANY_IN)
#define VALID_scatter SCATTERS(OUT)
#define VALID_scatterv SCATTERS(MANY_OUT)
#define VALID_allgather (OR_IN_PLACE(OUT) && IN)
#define VALID_allgatherv (OR_IN_PLACE(OUT) && MANY_IN)
#define VALID_alltoall (OR_IN_PLACE(OUT) && IN)
#define VALID_alltoallv (OR_IN_PLACE(MANY_OUT) && MANY_IN)
#define VALID_alltoallw (OR_IN_PLACE(TYPED_OUT) && TYPED_IN)
#define VALID_reduce \
    (is_rank(t, root) && (AT_ROOT ? REDUCES(count) : op != MPI_OP_NULL && is_data(send, count, type)))
#define VALID_allreduce REDUCES(count)
#define VALID_reduce_scatter                                                              \
    (op != MPI_OP_NULL && receive != MPI_IN_PLACE && are_counts(t, MANY(rcounts), type))
#define VALID_reduce_scatter_block REDUCES(rcount)
#define VALID_scan REDUCES(count)
/* Rank 0 gets nothing (MPI 6.11.2). */
#define VALID_exscan                                                                      \
    (t->rank == 0 && send != MPI_IN_PLACE ? op != MPI_OP_NULL && is_data(send, count, type) \
                                          : REDUCES(count))

#define DEFINE_AS(function, name, parameters, arguments, core)                            \
    int MPI_##function(parameters, MPI_Comm comm)                                         \
    {                                                                                     \
        REAL_NEEDED();                                                                    \
        struct team *t = team_for(comm);                                                  \
        int error = t && VALID_##name ? smartmap_##name(t, core) : NOT_SERVED;            \
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

/** Whether all members have a world, and it is this job's, is not known alike to all of them. */
int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                               MPI_Errhandler handler, MPI_Comm *comm)
{
    REAL_NEEDED();
    int error = real.Comm_create_from_group(group, tag, info, handler, comm);
    if (error == MPI_SUCCESS && *comm != MPI_COMM_NULL)
        comm_refuse(*comm);
    return error;
}
