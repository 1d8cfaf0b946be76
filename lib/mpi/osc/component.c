/*
 * The component as Open MPI's module loader sees it.  Windows made by
 * MPI_Win_allocate and MPI_Win_create are ours where all their processes are on
 * this node and left a card; see window.c for what else must be so.
 */
#include "osc_smartmap.h"

static int register_variables(void)
{
    struct smartmap_osc_component *c = &mca_osc_smartmap_component;
    const mca_base_component_t *base = &c->super.osc_version;
    mca_base_component_var_register(base, "enable", "false: windows are other components'",
                                    MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->enable);
    mca_base_component_var_register(base, "verbose", "1: report which windows are ours, and why not",
                                    MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->verbose);
    return OMPI_SUCCESS;
}

/** Without a card of ours no rank takes us for a member: all decide alike. */
static int leave_card(void)
{
    return mca_osc_smartmap_component.enable ? smartmap_leave_card("osc.smartmap.card")
                                             : OMPI_ERR_NOT_AVAILABLE;
}

static int init(bool progress_threads, bool mpi_threads)
{
    return smartmap_available() ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

static int query(ompi_win_t *win, void **base, size_t size, int disp_unit,
                 ompi_communicator_t *comm, opal_info_t *info, int flavor)
{
    enum { PRIORITY = 200 }; /* osc/rdma's is 101, osc/sm's 100 */
    if ((flavor != MPI_WIN_FLAVOR_ALLOCATE && flavor != MPI_WIN_FLAVOR_CREATE) ||
        ompi_comm_size(comm) < 2 || ompi_comm_size(comm) > SMARTMAP_MAX_RANKS ||
        ompi_group_have_remote_peers(comm->c_local_group) || !smartmap_all_left_cards(comm))
        return -1;
    return PRIORITY;
}

static int finalize(void)
{
    return OMPI_SUCCESS;
}

OMPI_DECLSPEC struct smartmap_osc_component mca_osc_smartmap_component = {
    .super = {
        .osc_version = {
            OMPI_OSC_BASE_VERSION_3_0_0,
            .mca_component_name = "smartmap",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = leave_card,
            .mca_register_component_params = register_variables,
        },
        .osc_data = { MCA_BASE_METADATA_PARAM_NONE },
        .osc_init = init,
        .osc_query = query,
        .osc_select = smartmap_window_select,
        .osc_finalize = finalize,
    },
    .enable = true,
};
