/*
 * The component as Open MPI's module loader sees it: name, version, tunables.
 * Without the preload it stands aside for the whole job.
 */
#define _GNU_SOURCE
#include "coll_smartmap.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "ompi/proc/proc.h"
#include "opal/util/output.h"
#if OMPI_MAJOR_VERSION >= 5 /* speaks to PMIx by PMIx's own names */
#include "opal/mca/pmix/pmix-internal.h"
#define CARD_SCOPE PMIX_LOCAL
#define CARD_TYPE PMIX_UINT64
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#include "opal/mca/pmix/pmix.h"
#define CARD_SCOPE OPAL_PMIX_LOCAL
#define CARD_TYPE OPAL_UINT64
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

#define CARD_KEY "coll.smartmap.card"

/*
 * Every process that could take part leaves a card with PMIx before Open MPI's
 * start-up fence: the ABI, its SMARTMAP rank and its pid in one number.  So
 * all ranks know alike, without a message, who can and who cannot.
 */
static int leave_card(void)
{
    int error;
    if (!smartmap_available())
        return OMPI_SUCCESS;
    uint64_t card = (uint64_t)SMARTMAP_ABI << 48 | (uint64_t)smartmap_rank() << 32 |
                    (uint32_t)getpid();
    OPAL_MODEX_SEND_VALUE(error, CARD_SCOPE, CARD_KEY, &card, CARD_TYPE);
    return error == OPAL_SUCCESS ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

static uint64_t fetch_card(const ompi_proc_t *proc)
{
    int error;
    uint64_t card = 0, *value = &card;
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(error, CARD_KEY, &proc->super.proc_name, &value,
                                    CARD_TYPE);
    return error == OPAL_SUCCESS ? card : 0;
}

/**
 * Did a process of this node leave a card of our version?  A card never
 * changes, so answers are kept: every new communicator asks for all members.
 */
bool smartmap_left_card(const ompi_proc_t *proc)
{
    enum { KEPT = 1024 };
    static struct {
        opal_process_name_t name;
        uint64_t card; /* 0: nothing kept here */
    } kept[KEPT];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    opal_process_name_t name = proc->super.proc_name;
    unsigned i = name.vpid % KEPT;
    pthread_mutex_lock(&lock);
    if (kept[i].card == 0 || kept[i].name.jobid != name.jobid ||
        kept[i].name.vpid != name.vpid) {
        kept[i].name = name;
        kept[i].card = fetch_card(proc);
    }
    bool left = kept[i].card >> 48 == SMARTMAP_ABI;
    pthread_mutex_unlock(&lock);
    return left;
}

/**
 * Fewer CPUs than processes of this job on this node, whichever of them a
 * communicator has: then spinning keeps some process from running.
 */
bool smartmap_is_crowded(void)
{
    static _Atomic int known; /* by the first communicator: 1 no, 2 yes */
    if (known)
        return known == 2;
    size_t count = 0;
    int processes = 0;
    cpu_set_t mask, together;
    ompi_proc_t **procs = ompi_proc_get_allocated(&count);
    CPU_ZERO(&together);
    for (size_t i = 0; procs && i < count; i++) {
        if (!OPAL_PROC_ON_LOCAL_NODE(procs[i]->super.proc_flags))
            continue;
        processes++;
        pid_t pid = (pid_t)(fetch_card(procs[i]) & 0xffffffff);
        if (sched_getaffinity(pid, sizeof mask, &mask) == 0) /* pid 0: no card, take our own */
            CPU_OR(&together, &together, &mask);
    }
    free(procs);
    known = CPU_COUNT(&together) < processes ? 2 : 1;
    return known == 2;
}

static int register_variables(void)
{
    struct smartmap_component *c = &mca_coll_smartmap_component;
    const mca_base_component_t *base = &c->super.collm_version;
    struct {
        const char *name, *text;
        int *value;
    } variables[] = {
        { "priority", "Priority; above tuned (30) it is chosen", &c->priority },
        { "verbose", "1: say once why a communicator falls back", &c->verbose },
        { "inline_bytes", "Contributions up to this size travel in the slot; -1: by the table",
          &c->given.inline_bytes },
        { "one_way_bytes", "The same for ranks that only give (bcast, reduce)",
          &c->given.one_way_bytes },
        { "parallel_bytes", "From this size reductions are divided among the ranks",
          &c->given.parallel_bytes },
        { "put_bytes", "From this size ranks put what they give to an allgather",
          &c->given.put_bytes },
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        mca_base_component_var_register(base, variables[i].name, variables[i].text,
                                        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0,
                                        OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY,
                                        variables[i].value);
    mca_base_component_var_register(base, "table", "File of tunables, as make tune writes it",
                                    MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->table);
    if (c->table && c->table[0])
        smartmap_read_table(c->table);
    return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads; /* a communicator runs one collective at a time, MPI 5.1 */
    if (smartmap_available())
        return OMPI_SUCCESS;
    if (mca_coll_smartmap_component.verbose)
        opal_output(0, "coll/smartmap: no arena (not preloaded, ulimit -v, or memfd "
                       "refused): standing aside");
    return OMPI_ERR_NOT_AVAILABLE;
}

OMPI_DECLSPEC struct smartmap_component mca_coll_smartmap_component = {
    .super = {
        .collm_version = {
            COLL_VERSION,
            .mca_component_name = "smartmap",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = leave_card,
            .mca_register_component_params = register_variables,
        },
        .collm_data = { MCA_BASE_METADATA_PARAM_NONE },
        .collm_init_query = init_query,
        .collm_comm_query = smartmap_comm_query,
    },
    .priority = 60,
    .verbose = 0,
    .given = { -1, -1, -1, -1 },
};
