/*
 * Whether a job is served: when all its processes run on this node and have this
 * library, it was not spawned by another job, and all of them reach each other
 * (meet.c).  All processes decide alike in MPI_Init.
 *
 * Who has the library has to be known without a message of MPI, for a process
 * without it would take that for its own.  So each announces it before it enters
 * PMPI_Init (smartmap.h), which none leaves before all have entered it: they
 * learn of each other there.
 */
#define _GNU_SOURCE
#include "job.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE "coll-1"

static bool announced; /* by this process: not by one of the same job before it */
static bool served;
static bool verbose;
static struct team *world;
static MPI_Request never = MPI_REQUEST_NULL; /* not complete as long as MPI is there */

/**
 * MPI has no call just for that.  MPI_Test of a request that is not complete has
 * to do it, also for one-sided operations, which MPI_Iprobe leaves alone in MPICH 5.
 */
void make_progress(void)
{
    int complete;
    real.Test(&never, &complete, MPI_STATUS_IGNORE);
}

static int say_nothing(void *state, MPI_Status *status)
{
    real.Status_set_elements(status, MPI_BYTE, 0);
    real.Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int free_nothing(void *state) { return MPI_SUCCESS; }

static int cancel_nothing(void *state, int complete) { return MPI_SUCCESS; }

/** Fewer CPUs than processes: then spinning keeps some process from running. */
bool smartmap_is_crowded(void)
{
    cpu_set_t mask, together;
    CPU_ZERO(&together);
    for (int r = 0; r < world->size; r++)
        if (sched_getaffinity(world->pid[r], sizeof mask, &mask) == 0)
            CPU_OR(&together, &together, &mask);
    return CPU_COUNT(&together) < world->size;
}

static bool all_announced(void)
{
    bool all = smartmap_available();
    for (int r = 0; all && r < smartmap_size(); r++)
        all = smartmap_announced(r, SERVICE);
    return all;
}

static bool can_begin(void)
{
    MPI_Comm parent;
    int size;
    return announced && all_announced() &&
           real.Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == smartmap_size() &&
           real.Comm_get_parent(&parent) == MPI_SUCCESS && parent == MPI_COMM_NULL;
}

static void begin(void)
{
    const char *set = getenv("SMARTMAP_VERBOSE"), *table = getenv("SMARTMAP_TABLE");
    verbose = set && set[0] != '\0' && set[0] != '0';
    if (table && table[0])
        smartmap_read_table(table); /* reports what is wrong with it */
    if (can_begin()) {
        real.Grequest_start(say_nothing, free_nothing, cancel_nothing, NULL, &never);
        served = true; /* for the world's own team */
        world = comm_team(MPI_COMM_WORLD);
        served = world && team_ready(world, MPI_COMM_WORLD);
    }
    if (verbose && smartmap_rank() == 0)
        smartmap_say(served ? "collectives go through windows"
                            : "collectives are the MPI's own: not all ranks have windows");
}

/** Members are known to be of this job by their places in the world. */
bool job_has_all_of(MPI_Comm comm)
{
    MPI_Group group, all;
    int size, from[SMARTMAP_MAX_RANKS], to[SMARTMAP_MAX_RANKS];
    if (!served || real.Comm_size(comm, &size) != MPI_SUCCESS || size > SMARTMAP_MAX_RANKS)
        return false;
    for (int r = 0; r < size; r++)
        from[r] = r;
    real.Comm_group(comm, &group);
    real.Comm_group(MPI_COMM_WORLD, &all);
    bool ours = real.Group_translate_ranks(group, size, from, all, to) == MPI_SUCCESS;
    for (int r = 0; r < size; r++)
        ours = ours && to[r] != MPI_UNDEFINED;
    real.Group_free(&group);
    real.Group_free(&all);
    return ours;
}

int MPI_Init(int *argc, char ***argv)
{
    REAL_NEEDED();
    announced = smartmap_announce(SERVICE) == 0;
    int error = real.Init(argc, argv);
    if (error == MPI_SUCCESS)
        begin();
    return error;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    REAL_NEEDED();
    announced = smartmap_announce(SERVICE) == 0;
    int error = real.Init_thread(argc, argv, required, provided);
    if (error == MPI_SUCCESS)
        begin();
    return error;
}

int MPI_Finalize(void)
{
    REAL_NEEDED();
    if (never != MPI_REQUEST_NULL) {
        real.Grequest_complete(never);
        real.Wait(&never, MPI_STATUS_IGNORE);
    }
    return real.Finalize();
}

int smartmap_gather_plainly(struct team *t, port_comm_t comm, const void *mine, int bytes,
                            void *all)
{
    return real.Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm);
}

void smartmap_abort(port_comm_t comm)
{
    real.Abort(comm, MPI_ERR_NO_MEM);
}

void smartmap_report_fallback(port_comm_t comm)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    if (verbose && real.Comm_get_name(comm, name, &length) == MPI_SUCCESS)
        smartmap_say("%s falls back: not all ranks reach each other", name);
}

void smartmap_say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "smartmap: %s\n", line);
}
