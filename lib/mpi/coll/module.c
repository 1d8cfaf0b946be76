/*
 * One module per communicator: when it serves, how it meets its peers, and
 * what it hands to others.
 *
 * A communicator is served when all its processes left a card (common/card.c),
 * which every rank sees alike.  Its ranks meet at the first collective, over
 * the component that would have served it: they exchange the addresses of
 * their control blocks, open each other's windows, and agree.  If one of them
 * cannot (other version, window refused), all of them fall back.
 *
 * Freeing a communicator does not synchronise its ranks, so a control block
 * outlives it in `limbo` until every peer has freed its side too, or died.
 */
#include "coll_smartmap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/util/output.h"

struct hello {
    uint64_t address; /* of the control block, in its owner's space */
    int32_t node_rank;
    int32_t pid;
    uint32_t abi;
    struct tunables use; /* all must take the same ways */
};

static void say_hello(struct hello *h, const smartmap_module_t *m)
{
    *h = (struct hello){ (uint64_t)m->own, smartmap_rank(), (int32_t)getpid(), SMARTMAP_ABI,
                         m->use };
}

struct farewell {
    struct farewell *next;
    int size, rank;
    struct control *own;
    struct control **peer;
    int *node_rank;
};

static struct farewell *limbo;
static pthread_mutex_t limbo_lock = PTHREAD_MUTEX_INITIALIZER;

static void construct(smartmap_module_t *m)
{
    m->state = MODULE_UNTRIED;
    m->own = NULL;
    m->peer = NULL;
    m->node_rank = NULL;
    m->pid = NULL;
    m->seen_done = NULL;
    m->op = 0;
    m->barriers = 0;
    memset(&m->previous, 0, sizeof m->previous);
}

static void free_control(struct control *control)
{
    /* It begins less than a page behind what was allocated. */
    free((void *)((uintptr_t)control / PAGE_BYTES * PAGE_BYTES));
}

static bool all_gone(const struct farewell *f)
{
    for (int r = 0; r < f->size; r++)
        if (r != f->rank && smartmap_alive(f->node_rank[r]) &&
            !atomic_load(&f->peer[r]->gone))
            return false;
    return true;
}

static void release(struct farewell *f)
{
    free_control(f->own);
    free(f->peer);
    free(f->node_rank);
    free(f);
}

static void empty_limbo(void)
{
    pthread_mutex_lock(&limbo_lock);
    for (struct farewell **link = &limbo; *link;) {
        struct farewell *f = *link;
        if (all_gone(f)) {
            *link = f->next;
            release(f);
        } else {
            link = &f->next;
        }
    }
    pthread_mutex_unlock(&limbo_lock);
}

static void enter_limbo(smartmap_module_t *m)
{
    struct farewell *f = malloc(sizeof *f);
    atomic_store(&m->own->gone, 1);
    if (!f)
        return; /* the block stays allocated: the safe side */
    *f = (struct farewell){ .size = m->size, .rank = m->rank, .own = m->own,
                            .peer = m->peer, .node_rank = m->node_rank };
    pthread_mutex_lock(&limbo_lock);
    f->next = limbo;
    limbo = f;
    pthread_mutex_unlock(&limbo_lock);
    m->own = NULL;
    m->peer = NULL;
    m->node_rank = NULL;
}

static void destruct(smartmap_module_t *m)
{
    if (m->state == MODULE_READY)
        enter_limbo(m);
    free_control(m->own);
    free(m->peer);
    free(m->node_rank);
    free(m->pid);
    free(m->seen_done);
#define DROP(name)                                  \
    if (m->previous.coll_##name##_module)           \
        OBJ_RELEASE(m->previous.coll_##name##_module);
    SMARTMAP_COLLECTIVES(DROP)
#undef DROP
}

OBJ_CLASS_INSTANCE(smartmap_module_t, mca_coll_base_module_t, construct, destruct);

static int enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
#define KEEP(name)                                                              \
    if (!comm->c_coll->coll_##name || !comm->c_coll->coll_##name##_module)      \
        return OMPI_ERR_NOT_AVAILABLE;
    SMARTMAP_COLLECTIVES(KEEP)
#undef KEEP
    m->previous = *comm->c_coll;
#define KEEP(name) OBJ_RETAIN(m->previous.coll_##name##_module);
    SMARTMAP_COLLECTIVES(KEEP)
#undef KEEP
    return OMPI_SUCCESS;
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
    m->rank = ompi_comm_rank(comm);
    m->size = ompi_comm_size(comm);
    m->use = smartmap_tunables(m->size);
    m->super.coll_module_enable = enable;
#define SERVE(name) m->super.coll_##name = smartmap_##name;
    SMARTMAP_COLLECTIVES(SERVE)
#undef SERVE
    *priority = mca_coll_smartmap_component.priority;
    return &m->super;
}

static bool create_control(smartmap_module_t *m)
{
    size_t table = sizeof(struct entry) * (size_t)m->size;
    int most = m->use.inline_bytes > m->use.one_way_bytes ? m->use.inline_bytes
                                                          : m->use.one_way_bytes;
    size_t data = 2 * table + (size_t)most;
    size_t slot = offsetof(struct slot, data) + data;
    m->slot_bytes = (slot + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    m->data_bytes = m->slot_bytes - offsetof(struct slot, data);
    size_t bytes = sizeof *m->own + SLOTS * m->slot_bytes;
    m->peer = calloc((size_t)m->size, sizeof *m->peer);
    m->node_rank = calloc((size_t)m->size, sizeof *m->node_rank);
    m->pid = calloc((size_t)m->size, sizeof *m->pid);
    m->seen_done = calloc((size_t)m->size, sizeof *m->seen_done);
    char *page = aligned_alloc(PAGE_BYTES, (bytes / PAGE_BYTES + 2) * PAGE_BYTES);
    m->own = page ? (struct control *)(page + smartmap_place_in_page(m->rank)) : NULL;
    if (!m->own || !m->peer || !m->node_rank || !m->pid || !m->seen_done)
        return false;
    memset(m->own, 0, bytes);
    return smartmap_exports(m->own, bytes);
}

/** Open the windows of all peers that said hello. */
static bool meet_peers(smartmap_module_t *m, const struct hello *hello)
{
    for (int r = 0; r < m->size; r++) {
        m->node_rank[r] = hello[r].node_rank;
        m->pid[r] = hello[r].pid;
        if (hello[r].address == 0 || hello[r].abi != SMARTMAP_ABI ||
            memcmp(&hello[r].use, &m->use, sizeof m->use) != 0)
            return false;
        if (r != m->rank && (smartmap_attach(hello[r].node_rank, hello[r].pid) != 0 ||
                             !smartmap_reachable(hello[r].node_rank,
                                                 (void *)hello[r].address,
                                                 sizeof(struct control))))
            return false;
        m->peer[r] = smartmap_view(m, r, (void *)hello[r].address);
    }
    return true;
}

bool smartmap_prepare(smartmap_module_t *m, ompi_communicator_t *comm)
{
    if (m->state == MODULE_FALLBACK)
        return false;
    m->state = MODULE_FALLBACK; /* until all agree */
    empty_limbo();
    struct hello *hello = calloc((size_t)m->size, sizeof *hello), mine = { 0 };
    int *agreed = calloc((size_t)m->size, sizeof *agreed);
    if (!hello || !agreed) /* peers would wait for us for ever */
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    if (create_control(m))
        say_hello(&mine, m);
    int error = SMARTMAP_PREVIOUS(m, allgather, &mine, sizeof mine, MPI_BYTE, hello,
                                  sizeof mine, MPI_BYTE, comm);
    int met = error == OMPI_SUCCESS && m->own && meet_peers(m, hello);
    error = SMARTMAP_PREVIOUS(m, allgather, &met, 1, MPI_INT, agreed, 1, MPI_INT, comm);
    bool all = error == OMPI_SUCCESS;
    for (int r = 0; r < m->size; r++)
        all = all && agreed[r];
    free(hello);
    free(agreed);
    if (!all && mca_coll_smartmap_component.verbose && m->rank == 0)
        opal_output(0, "coll/smartmap: %s falls back: not all ranks reach each other",
                    comm->c_name);
    if (!all)
        return false;
    m->crowded = smartmap_is_crowded();
    m->state = MODULE_READY;
    return true;
}
