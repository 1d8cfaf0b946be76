/*
 * Processes that die: what waits for them fails, so that nothing hangs.  What
 * they wrote before is read first.
 *
 * On Linux a window outlasts its process.  On a node of Margay it goes with it,
 * and who writes to a channel or copies from a buffer there before the death was
 * noticed gets SIGSEGV: then the job is over, and one line reports why.
 */
#include "pml_smartmap.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "ompi/runtime/mpiruntime.h"
#include "opal/util/output.h"

/** What SIGSEGV was before. */
static struct sigaction earlier;

/** Is it the window of a process of this job that has died? */
static bool is_of_dead(const void *address)
{
    int rank = (int)((uintptr_t)address >> SMARTMAP_SLOT_SHIFT) - 1;
    for (uint32_t node = 0; node < job.sizes.processes; node++)
        if (job.peer[node].smartmap_rank == rank)
            return (int)node != job.self && !smartmap_alive(rank);
    return false;
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
    if (info->si_code > 0 && is_of_dead(info->si_addr)) {
        dprintf(STDERR_FILENO, "pml/smartmap: local rank %d: local rank %d has died, and its memory with it: this rank ends\n",
                smartmap_rank(), (int)((uintptr_t)info->si_addr >> SMARTMAP_SLOT_SHIFT) - 1);
        _exit(1);
    }
    if (earlier.sa_flags & SA_SIGINFO)
        earlier.sa_sigaction(signo, info, context);
    else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN)
        earlier.sa_handler(signo);
    else
        sigaction(SIGSEGV, &earlier, NULL); /* the access is repeated, and faults again */
}

void job_watch_windows(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigaction(SIGSEGV, &action, &earlier);
}

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
 * Under the lock, now and then: notice who has died.  Between two polls each
 * channel is emptied, so who is found dead twice has nothing left to be read.
 * In MPI_Finalize processes end as they should, which all have come to by then.
 */
void job_find_lost(void)
{
    if (ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_STARTED)
        return;
    for (uint32_t node = 0; node < job.sizes.processes; node++) {
        struct peer *p = &job.peer[node];
        if (p->lost || (int)node == job.self || smartmap_alive(p->smartmap_rank))
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

/** Between two polls of what `p` writes meanwhile, counted from 1: now and then yields, and sees whether it has died. */
bool job_is_dead(const struct peer *p, unsigned polls)
{
    enum { POLLS_TO_CHECK = 4096 };
    if (polls % POLLS_TO_CHECK != 0)
        return false;
    sched_yield();
    return !smartmap_alive(p->smartmap_rank);
}

/** Is a process lost that a receive from `rank` could wait for? */
bool job_lost_source(const struct comm *c, int rank)
{
    for (int r = 0; r < c->size; r++)
        if ((rank == r || rank == MPI_ANY_SOURCE) && job.peer[c->node[r]].lost)
            return true;
    return false;
}
