/*
 * Making and freeing a window.
 *
 * Its ranks exchange in MPI_Win_allocate or MPI_Win_create where their
 * memory and control block are, open each other's windows of SMARTMAP, and
 * agree.  If one of them cannot be reached (memory of a stack, static data or a
 * full arena, another version), the window becomes the component's that Open
 * MPI would have chosen without us, for all of them.
 */
#include "osc_smartmap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/util/output.h"

struct hello {
    uint64_t control, base, bytes; /* control 0: this rank cannot take part */
    int32_t unit, node_rank, pid;
    uint32_t protocol;
};

static int refuse_attach(ompi_win_t *win, void *base, size_t size) { return MPI_ERR_RMA_ATTACH; }

static int refuse_detach(ompi_win_t *win, const void *base) { return MPI_ERR_RMA_ATTACH; }

static const ompi_osc_base_module_t functions = {
    .osc_win_attach = refuse_attach,
    .osc_win_detach = refuse_detach,
    .osc_free = smartmap_window_free,
    .osc_put = smartmap_put,
    .osc_get = smartmap_get,
    .osc_accumulate = smartmap_accumulate,
    .osc_compare_and_swap = smartmap_compare_and_swap,
    .osc_fetch_and_op = smartmap_fetch_and_op,
    .osc_get_accumulate = smartmap_get_accumulate,
    .osc_rput = smartmap_rput,
    .osc_rget = smartmap_rget,
    .osc_raccumulate = smartmap_raccumulate,
    .osc_rget_accumulate = smartmap_rget_accumulate,
    .osc_fence = smartmap_fence,
    .osc_start = smartmap_start,
    .osc_complete = smartmap_complete,
    .osc_post = smartmap_post,
    .osc_wait = smartmap_wait,
    .osc_test = smartmap_test,
    .osc_lock = smartmap_lock,
    .osc_unlock = smartmap_unlock,
    .osc_lock_all = smartmap_lock_all,
    .osc_unlock_all = smartmap_unlock_all,
    .osc_sync = smartmap_sync,
    .osc_flush = smartmap_flush,
    .osc_flush_all = smartmap_flush_all,
    .osc_flush_local = smartmap_flush,
    .osc_flush_local_all = smartmap_flush_all,
};

/** Zeroed, as memory of Open MPI's own windows is. */
static void *allocate_zeroed(size_t bytes, void **page)
{
    *page = bytes <= SIZE_MAX - PAGE_BYTES ? calloc(1, bytes + PAGE_BYTES) : NULL;
    return *page ? (void *)(((uintptr_t)*page + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1))
                 : NULL;
}

static void release(smartmap_window_t *w)
{
    free(w->memory);
    free(w->page);
    pthread_mutex_destroy(&w->guard);
    free(w);
}

static smartmap_window_t *create(ompi_communicator_t *comm)
{
    size_t size = (size_t)ompi_comm_size(comm);
    smartmap_window_t *w = calloc(1, sizeof *w + size * sizeof w->target[0]);
    if (!w) /* the other ranks would wait for us */
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    w->super = functions;
    w->rank = ompi_comm_rank(comm);
    w->size = (int)size;
    w->crowded = smartmap_is_crowded();
    pthread_mutex_init(&w->guard, NULL);
    return w;
}

static size_t control_bytes(const smartmap_window_t *w)
{
    return sizeof *w->own + (size_t)w->size * sizeof w->own->mail[0];
}

/** What we give to the window, if peers can reach it. */
static struct hello make_hello(smartmap_window_t *w, void *base, size_t bytes, int unit, int flavor)
{
    struct hello none = { 0 };
    char *page = allocate_zeroed(PAGE_BYTES + control_bytes(w), &w->page);
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE)
        base = allocate_zeroed(bytes, &w->memory);
    if (!page || (flavor == MPI_WIN_FLAVOR_ALLOCATE && !base))
        return none;
    w->own = (struct control *)(page + smartmap_place_in_page(w->rank));
    if (!smartmap_exports(w->own, control_bytes(w)) ||
        (bytes > 0 && !smartmap_exports(base, bytes)))
        return none;
    return (struct hello){ (uint64_t)w->own, (uint64_t)base, bytes, unit, smartmap_rank(),
                           (int32_t)getpid(), PROTOCOL };
}

/** Open a rank's part of the window; false: it cannot be reached. */
static bool reach(smartmap_window_t *w, int rank, const struct hello *h)
{
    struct target *t = &w->target[rank];
    unsigned node_rank = (unsigned)h->node_rank;
    *t = (struct target){ .base = (char *)h->base, .bytes = h->bytes, .unit = h->unit,
                          .node_rank = h->node_rank, .control = (struct control *)h->control };
    if (h->control == 0 || h->protocol != PROTOCOL)
        return false;
    if (rank == w->rank)
        return true;
    if (smartmap_attach(h->node_rank, h->pid) != 0 ||
        !smartmap_reachable(h->node_rank, t->control, control_bytes(w)) ||
        (h->bytes > 0 && !smartmap_reachable(h->node_rank, t->base, h->bytes)))
        return false;
    t->control = smartmap_remote(node_rank, t->control);
    t->base = smartmap_remote(node_rank, t->base);
    return true;
}

/** Exchange what ranks give, and agree whether all reach all of it. */
static bool meet(smartmap_window_t *w, const struct hello *mine, ompi_communicator_t *comm)
{
    const mca_coll_base_comm_coll_t *coll = comm->c_coll;
    struct hello *hello = calloc((size_t)w->size, sizeof *hello);
    int *agreed = calloc((size_t)w->size, sizeof *agreed), reached = 1;
    if (!hello || !agreed)
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    bool all = coll->coll_allgather(mine, sizeof *mine, MPI_BYTE, hello, sizeof *mine, MPI_BYTE,
                                    comm, coll->coll_allgather_module) == OMPI_SUCCESS;
    for (int r = 0; r < w->size; r++)
        reached = reached && all && reach(w, r, &hello[r]);
    all = coll->coll_allgather(&reached, 1, MPI_INT, agreed, 1, MPI_INT, comm,
                               coll->coll_allgather_module) == OMPI_SUCCESS;
    for (int r = 0; r < w->size; r++)
        all = all && agreed[r];
    free(hello);
    free(agreed);
    return all;
}

/** The component that Open MPI would take without us. */
static int select_other(ompi_win_t *win, void **base, size_t bytes, int unit,
                        ompi_communicator_t *comm, opal_info_t *info, int flavor, int *model)
{
    ompi_osc_base_component_t *best = NULL;
    mca_base_component_list_item_t *item;
    int best_priority = -1;
    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components,
                      mca_base_component_list_item_t) {
        ompi_osc_base_component_t *c = (ompi_osc_base_component_t *)item->cli_component;
        int priority = c == &mca_osc_smartmap_component.super
                           ? -1
                           : c->osc_query(win, base, bytes, unit, comm, info, flavor);
        if (priority > best_priority) {
            best = c;
            best_priority = priority;
        }
    }
    return best ? best->osc_select(win, base, bytes, unit, comm, info, flavor, model)
                : OMPI_ERR_NOT_SUPPORTED;
}

static void report(const smartmap_window_t *w, const char *what)
{
    if (mca_osc_smartmap_component.verbose && w->rank == 0)
        opal_output(0, "osc/smartmap: %s", what);
}

int smartmap_window_select(ompi_win_t *win, void **base, size_t bytes, int unit,
                           ompi_communicator_t *comm, opal_info_t *info, int flavor, int *model)
{
    bool no_locks = false;
    int given;
    smartmap_window_t *w = create(comm);
    struct hello mine = make_hello(w, flavor == MPI_WIN_FLAVOR_CREATE ? *base : NULL, bytes, unit,
                                  flavor);
    if (!meet(w, &mine, comm)) {
        report(w, "another component serves: not all ranks reach all of the window");
        release(w);
        return select_other(win, base, bytes, unit, comm, info, flavor, model);
    }
    report(w, "one-sided communication goes through windows");
    opal_info_get_bool(info, "no_locks", &no_locks, &given);
    if (no_locks)
        win->w_flags |= OMPI_WIN_NO_LOCKS;
    *base = (void *)mine.base;
    *model = MPI_WIN_UNIFIED;
    win->w_osc_module = &w->super;
    return OMPI_SUCCESS;
}

/** Nobody writes into our memory after its last fence. */
int smartmap_window_free(ompi_win_t *win)
{
    smartmap_window_t *w = window_of(win);
    int error = window_barrier(w);
    if (error == OMPI_SUCCESS)
        release(w);
    return error;
}
