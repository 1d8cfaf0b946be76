/*
 * The component as Open MPI's module loader sees it.
 *
 * It interposes as Open MPI's own pml/monitoring does: it never wins the
 * selection, and when those that lost it are closed, it takes the place of the
 * winner, if that is ob1, and passes on what it does not serve.
 */
#include "pml_smartmap.h"

#include <string.h>

#include "opal/mca/base/mca_base_component_repository.h"

#if OMPI_MAJOR_VERSION >= 5
#define PML_VERSION MCA_PML_BASE_VERSION_2_1_0
#else
#define PML_VERSION MCA_PML_BASE_VERSION_2_0_0
#endif

static int register_variables(void)
{
    struct smartmap_pml_component *c = &mca_pml_smartmap_component;
    const mca_base_component_t *base = &c->super.pmlm_version;
    mca_base_component_var_register(base, "enable", "false: messages go by ob1",
                                    MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->enable);
    mca_base_component_var_register(base, "verbose", "1: report once why messages go by ob1",
                                    MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->verbose);
    mca_base_component_var_register(base, "medium_bytes",
                                    "Messages up to this size complete without their receiver",
                                    MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5,
                                    MCA_BASE_VAR_SCOPE_READONLY, &c->medium_bytes);
    return OMPI_SUCCESS;
}

/** Never the winner: a priority of 0 only keeps the component from failing. */
static mca_pml_base_module_t *init(int *priority, bool progress_threads, bool mpi_threads)
{
    if (!mca_pml_smartmap_component.enable)
        return NULL;
    *priority = 0;
    return &BASE;
}

static void interpose(void)
{
    BASE = mca_pml;
    mca_pml.pml_add_comm = smartmap_add_comm;
    mca_pml.pml_del_comm = smartmap_del_comm;
    mca_pml.pml_irecv_init = smartmap_irecv_init;
    mca_pml.pml_irecv = smartmap_irecv;
    mca_pml.pml_recv = smartmap_recv;
    mca_pml.pml_isend_init = smartmap_isend_init;
    mca_pml.pml_isend = smartmap_isend;
    mca_pml.pml_send = smartmap_send;
    mca_pml.pml_iprobe = smartmap_iprobe;
    mca_pml.pml_probe = smartmap_probe;
    mca_pml.pml_start = smartmap_start;
    mca_pml.pml_improbe = smartmap_improbe;
    mca_pml.pml_mprobe = smartmap_mprobe;
    mca_pml.pml_imrecv = smartmap_imrecv;
    mca_pml.pml_mrecv = smartmap_mrecv;
    mca_pml.pml_dump = smartmap_dump;
}

/** Open MPI closes the components that lost: that is when ours begins. */
static int close_component(void)
{
    struct smartmap_pml_component *c = &mca_pml_smartmap_component;
    const char *winner = mca_pml_base_selected_component.pmlm_version.mca_component_name;
    if (c->active || !c->enable || strcmp(winner, "ob1") != 0 ||
        mca_base_component_repository_retain_component("pml", "smartmap") != OPAL_SUCCESS)
        return OMPI_SUCCESS;
    c->active = true;
    c->base_component = mca_pml_base_selected_component;
    mca_pml_base_selected_component = c->super;
    interpose();
    job_leave_card();
    return OMPI_SUCCESS;
}

static int finalize(void)
{
    struct smartmap_pml_component *c = &mca_pml_smartmap_component;
    if (!c->active)
        return OMPI_SUCCESS;
    job_leave();
    return c->base_component.pmlm_finalize();
}

OMPI_DECLSPEC struct smartmap_pml_component mca_pml_smartmap_component = {
    .super = {
        .pmlm_version = {
            PML_VERSION,
            .mca_component_name = "smartmap",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_close_component = close_component,
            .mca_register_component_params = register_variables,
        },
        .pmlm_data = { MCA_BASE_METADATA_PARAM_NONE },
        .pmlm_init = init,
        .pmlm_finalize = finalize,
    },
    .enable = true,
    .medium_bytes = 16384,
};
