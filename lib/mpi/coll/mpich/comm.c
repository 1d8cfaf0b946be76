/*
 * Communicators: which are ours, and their teams, from their first collective
 * until they are freed, which an attribute's deletion notifies us of.
 */
#include "job.h"

#include "handles.h"

struct kept {
    struct handle handle;
    bool refused;
    struct team team;
};

static struct handles all = HANDLES_INITIALIZER;

static int freed(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct kept *kept = value;
    team_end(&kept->team);
    handles_remove(&all, &kept->handle);
    return MPI_SUCCESS;
}

/** Where nodes are made, so that all threads use one. */
static int keyval(void)
{
    static int known = MPI_KEYVAL_INVALID;
    if (known == MPI_KEYVAL_INVALID)
        real.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, freed, &known, NULL);
    return known;
}

/** Two ranks or more, of this job, and no others. */
static bool can_be_ours(MPI_Comm comm, int *rank, int *size)
{
    int inter;
    return real.Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter &&
           real.Comm_size(comm, size) == MPI_SUCCESS && *size > 1 &&
           real.Comm_rank(comm, rank) == MPI_SUCCESS && job_has_all_of(comm);
}

/** Without memory for it, peers would wait for us for ever. */
static struct kept *keep(MPI_Comm comm, bool refused)
{
    int rank = 0, size = 0;
    bool ours = !refused && can_be_ours(comm, &rank, &size);
    pthread_mutex_lock(&all.making);
    struct kept *kept = (struct kept *)handles_search(&all, comm);
    if (!kept) {
        kept = (struct kept *)handles_take(&all, sizeof *kept);
        if (!kept)
            smartmap_abort(comm);
        kept->refused = !ours;
        team_start(&kept->team, rank, size);
        if (real.Comm_set_attr(comm, keyval(), kept) != MPI_SUCCESS)
            smartmap_abort(comm);
        handles_add(&all, &kept->handle, comm);
    }
    pthread_mutex_unlock(&all.making);
    return kept;
}

/** Is it a communicator at all?  What is none is left to the MPI, which reports it. */
static bool exists(MPI_Comm comm)
{
    int size;
    return comm != MPI_COMM_NULL && real.Comm_size(comm, &size) == MPI_SUCCESS;
}

struct team *comm_team(MPI_Comm comm)
{
    struct kept *kept = (struct kept *)handles_find(&all, comm);
    if (unlikely(!kept) && exists(comm))
        kept = keep(comm, false);
    return kept && !kept->refused ? &kept->team : NULL;
}

void comm_refuse(MPI_Comm comm)
{
    keep(comm, true);
}
