/*
 * Processes that die: what waits for them fails, so that nothing hangs.  What
 * they wrote before is read first.
 */
#include "pml_smartmap.h"

#include "opal/util/output.h"

static struct request *request_of(struct match_item *item)
{
    return (struct request *)((char *)item - offsetof(struct request, match));
}

static bool waits_for(const struct request *r, int node)
{
    const struct comm *c = r->comm;
    if (r->rank != MPI_ANY_SOURCE)
        return c->node[r->rank] == node;
    for (int rank = 0; rank < c->size; rank++)
        if (c->node[rank] == node)
            return true;
    return false;
}

static void fail_waiting(int node)
{
    struct peer *p = &job.peer[node];
    struct match_item *after;
    for (struct match_item *item = job.posted.all.first; item; item = after) {
        struct request *r = request_of(item);
        after = item->all.next;
        if (!waits_for(r, node))
            continue;
        match_remove(&job.posted, item);
        r->posted = false;
        request_finish(r, MPI_ERR_OTHER);
    }
    while (p->awaiting)
        request_finish(p->awaiting, MPI_ERR_OTHER);
    for (struct request *next, *r = p->first; r; r = next) {
        next = r->next; /* a finished request uses it otherwise */
        request_finish(r, MPI_ERR_OTHER);
    }
    p->first = p->last = NULL;
}

/**
 * Under the lock, now and then: notice who has died.  Between two looks each
 * channel is emptied, so who is found dead twice has nothing left to be read.
 */
void job_find_lost(void)
{
    for (uint32_t node = 0; node < job.sizes.processes; node++) {
        struct peer *p = &job.peer[node];
        if (p->lost || (int)node == job.self || smartmap_alive(p->smartmap_rank) ||
            atomic_load(&p->block->gone))
            continue;
        if (!p->silent) {
            p->silent = true;
            continue;
        }
        p->lost = job.any_lost = true;
        opal_output(0, "pml/smartmap: local rank %d: local rank %d has died",
                    smartmap_rank(), p->smartmap_rank);
        fail_waiting((int)node);
    }
}

/** Is a process lost that a receive from `rank` could wait for? */
bool job_lost_source(const struct comm *c, int rank)
{
    for (int r = 0; r < c->size; r++)
        if ((rank == r || rank == MPI_ANY_SOURCE) && job.peer[c->node[r]].lost)
            return true;
    return false;
}
