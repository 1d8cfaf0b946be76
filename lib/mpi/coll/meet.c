/*
 * How a team begins and ends.
 *
 * Its ranks meet at the first collective, by the MPI's own means: they exchange
 * the addresses of their control blocks, open each other's windows, and agree.
 * If one of them cannot (other version, window refused), all of them fall back.
 *
 * Freeing a communicator does not synchronise its ranks, so a control block
 * is retired, and freed when every peer has freed its side too, or died (deferred free).
 */
#include "sent.h"
#include "team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROTOCOL = 3 }; /* what control blocks and slots hold, and who reads them when */

struct hello {
    uint64_t address; /* of the control block, in its owner's space */
    int32_t node_rank;
    int32_t pid;
    uint32_t abi, protocol;
    struct tunables use; /* all must take the same ways */
};

static void fill_hello(struct hello *h, const struct team *t)
{
    *h = (struct hello){ (uint64_t)t->own, smartmap_rank(), (int32_t)getpid(), SMARTMAP_ABI,
                         PROTOCOL, t->use };
}

struct retired {
    struct retired *next;
    int size, rank;
    struct control *own;
    struct control **peer;
    int *node_rank;
};

static struct retired *retired;
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;

static void free_control(struct control *control)
{
    /* It begins less than a page behind what was allocated. */
    free((void *)((uintptr_t)control / PAGE_BYTES * PAGE_BYTES));
}

static bool all_gone(const struct retired *f)
{
    for (int r = 0; r < f->size; r++)
        if (r != f->rank && smartmap_alive(f->node_rank[r]) &&
            !atomic_load(&f->peer[r]->gone))
            return false;
    return true;
}

static void release(struct retired *f)
{
    free_control(f->own);
    free(f->peer);
    free(f->node_rank);
    free(f);
}

static void free_retired(void)
{
    pthread_mutex_lock(&retired_lock);
    for (struct retired **link = &retired; *link;) {
        struct retired *f = *link;
        if (all_gone(f)) {
            *link = f->next;
            release(f);
        } else {
            link = &f->next;
        }
    }
    pthread_mutex_unlock(&retired_lock);
}

static void retire(struct team *t)
{
    struct retired *f = malloc(sizeof *f);
    struct control *own = t->own;
    atomic_store(&own->gone, 1);
    t->own = NULL;
    if (!f)
        return; /* the block stays allocated: peers may still read it */
    *f = (struct retired){ .size = t->size, .rank = t->rank, .own = own,
                            .peer = t->peer, .node_rank = t->node_rank };
    pthread_mutex_lock(&retired_lock);
    f->next = retired;
    retired = f;
    pthread_mutex_unlock(&retired_lock);
    t->peer = NULL;
    t->node_rank = NULL;
}

void team_start(struct team *t, int rank, int size)
{
    *t = (struct team){ .state = TEAM_UNTRIED, .rank = rank, .size = size,
                        .use = smartmap_tunables(size) };
}

void team_end(struct team *t)
{
    if (t->state == TEAM_READY)
        retire(t);
    free_control(t->own);
    free(t->peer);
    free(t->node_rank);
    free(t->pid);
    free(t->seen_done);
    free(t->given);
}

static bool create_control(struct team *t)
{
    size_t table = sizeof(struct entry) * (size_t)t->size;
    int most = t->use.inline_bytes > t->use.one_way_bytes ? t->use.inline_bytes
                                                          : t->use.one_way_bytes;
    size_t data = 2 * table + (size_t)most;
    size_t slot = offsetof(struct slot, data) + data;
    t->slot_bytes = (slot + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    t->data_bytes = t->slot_bytes - offsetof(struct slot, data);
    size_t bytes = sizeof *t->own + SLOTS * t->slot_bytes;
    t->peer = calloc((size_t)t->size, sizeof *t->peer);
    t->node_rank = calloc((size_t)t->size, sizeof *t->node_rank);
    t->pid = calloc((size_t)t->size, sizeof *t->pid);
    t->seen_done = calloc((size_t)t->size, sizeof *t->seen_done);
    t->given = smartmap_keeps() ? calloc(1, sizeof *t->given) : NULL;
    char *page = aligned_alloc(PAGE_BYTES, (bytes / PAGE_BYTES + 2) * PAGE_BYTES);
    t->own = page ? (struct control *)(page + smartmap_place_in_page(t->rank)) : NULL;
    if (!t->own || !t->peer || !t->node_rank || !t->pid || !t->seen_done)
        return false;
    memset(t->own, 0, bytes);
    return smartmap_exports(t->own, bytes);
}

/** Open the windows of all peers that said hello. */
static bool meet_peers(struct team *t, const struct hello *hello)
{
    for (int r = 0; r < t->size; r++) {
        t->node_rank[r] = hello[r].node_rank;
        t->pid[r] = hello[r].pid;
        if (hello[r].address == 0 || hello[r].abi != SMARTMAP_ABI ||
            hello[r].protocol != PROTOCOL ||
            memcmp(&hello[r].use, &t->use, sizeof t->use) != 0)
            return false;
        if (r != t->rank && (smartmap_attach(hello[r].node_rank, hello[r].pid) != 0 ||
                             !smartmap_reachable(hello[r].node_rank,
                                                 (void *)hello[r].address,
                                                 sizeof(struct control))))
            return false;
        t->peer[r] = smartmap_view(t, r, (void *)hello[r].address);
    }
    return true;
}

bool team_meet(struct team *t, port_comm_t comm)
{
    if (t->state == TEAM_FALLBACK)
        return false;
    t->state = TEAM_FALLBACK; /* until all agree */
    free_retired();
    struct hello *hello = calloc((size_t)t->size, sizeof *hello), mine = { 0 };
    int *agreed = calloc((size_t)t->size, sizeof *agreed);
    if (!hello || !agreed)
        smartmap_abort(comm);
    if (create_control(t))
        fill_hello(&mine, t);
    int error = smartmap_gather_plainly(t, comm, &mine, sizeof mine, hello);
    int met = error == MPI_SUCCESS && t->own && meet_peers(t, hello);
    error = smartmap_gather_plainly(t, comm, &met, sizeof met, agreed);
    bool all = error == MPI_SUCCESS;
    for (int r = 0; r < t->size; r++)
        all = all && agreed[r];
    free(hello);
    free(agreed);
    if (!all && t->rank == 0)
        smartmap_report_fallback(comm);
    if (!all)
        return false;
    t->crowded = smartmap_is_crowded();
    t->state = TEAM_READY;
    return true;
}
