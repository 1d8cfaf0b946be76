/*
 * The component as Open MPI's module loader sees it: name, version, tunables.
 * Without the preload it stands aside for the whole job.
 */
#include "component.h"

#include "opal/util/output.h"
#if OMPI_MAJOR_VERSION >= 5
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

static int leave_card(void)
{
    return smartmap_leave_card("coll.smartmap.card");
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
        { "verbose", "1: report once why a communicator falls back", &c->verbose },
        { "inline_bytes", "Contributions up to this size travel in the slot; -1: by the table",
          &smartmap_given.inline_bytes },
        { "one_way_bytes", "The same for ranks that only give (bcast, scatter, reduce)",
          &smartmap_given.one_way_bytes },
        { "parallel_bytes", "From this size reductions are divided among the ranks",
          &smartmap_given.parallel_bytes },
        { "put_bytes", "From this size ranks put what they give to an allgather",
          &smartmap_given.put_bytes },
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
};
