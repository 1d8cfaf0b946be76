/*
 * The job: its processes meet at the start.
 *
 * Before Open MPI's start-up fence a process that could take part leaves a card
 * with PMIx: its SMARTMAP rank, pid and block.  After it, where all have left
 * one, each opens the others' windows and writes its verdict into its block.
 * One that cannot reach another, or lacks a card or memory, votes no.  So either
 * all read yes in all blocks, or each has said no, or reads a no, or cannot read
 * it, which is a no.
 */
#define _GNU_SOURCE
#include "pml_smartmap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/proc/proc.h"
#include "opal/mca/btl/base/base.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#if OMPI_MAJOR_VERSION >= 5
#include "ompi/runtime/params.h"
#endif
#include "word.h"

#define CARD_KEY "pml.smartmap.card"
#define BLOCK_KEY "pml.smartmap.block"

struct job job = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void report(const char *what)
{
    if (mca_pml_smartmap_component.verbose && job.self == 0)
        opal_output(0, "pml/smartmap: %s", what);
}

/** Small rings where there are many: at most 9 MiB of them per process. */
static struct sizes choose_sizes(uint32_t processes)
{
    struct sizes s = { .processes = processes, .lines = 256, .ring_bytes = 128 << 10 };
    if (processes > 16)
        s = (struct sizes){ .processes = processes, .lines = 64, .ring_bytes = 32 << 10 };
    int most = mca_pml_smartmap_component.medium_bytes;
    s.medium_bytes = most < SHORT_BYTES ? SHORT_BYTES : (uint32_t)most;
    if (s.medium_bytes > s.ring_bytes / 2)
        s.medium_bytes = s.ring_bytes / 2;
    return s;
}

static bool create_block(void)
{
    const struct sizes *s = &job.sizes;
    size_t bytes = sizeof(struct block) + s->processes * channel_bytes(s);
    char *page = aligned_alloc(PAGE_BYTES, (bytes / PAGE_BYTES + 2) * PAGE_BYTES);
    if (!page)
        return false;
    struct block *b = (struct block *)(page + smartmap_place_in_page(smartmap_rank()));
    if (!smartmap_exports(b, bytes)) {
        free(page);
        return false;
    }
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < s->processes; i++)
        memset(channel_end(b, (int)i, s).channel, 0, channel_bytes(s) - s->ring_bytes);
    b->protocol = PROTOCOL;
    b->sizes = *s;
    sched_getaffinity(0, sizeof b->cpus, (cpu_set_t *)b->cpus);
    job.block = b;
    return true;
}

/** ob1 alone revokes communicators and goes on after a failure (ULFM). */
static bool wants_fault_tolerance(void)
{
#if OMPI_MAJOR_VERSION >= 5
    return ompi_ftmpi_enabled;
#else
    return false;
#endif
}

/** Say that we could take part; all processes of the job are on this node. */
void job_leave_card(void)
{
    uint32_t processes = (uint32_t)smartmap_size();
    if (!smartmap_available() || processes != ompi_process_info.num_procs ||
        processes > SMARTMAP_MAX_RANKS || wants_fault_tolerance())
        return;
    job.sizes = choose_sizes(processes);
    if (create_block() && leave_word(BLOCK_KEY, (uint64_t)job.block))
        leave_word(CARD_KEY, own_card());
}

/** Read a process's card; false: it left none. */
static bool read_card(ompi_group_t *world, int node, uint64_t *block)
{
    const ompi_proc_t *proc = ompi_group_peer_lookup(world, node);
    struct peer *p = &job.peer[node];
    uint64_t card = fetch_word(proc, CARD_KEY);
    *block = card_is_ours(card) ? fetch_word(proc, BLOCK_KEY) : 0;
    p->smartmap_rank = card_rank(card);
    p->pid = card_pid(card);
    return *block != 0 && proc->super.proc_name.jobid == job.id &&
           proc->super.proc_name.vpid == (opal_vpid_t)node;
}

/** Open a process's window, and both channels; false: it cannot be reached. */
static bool reach(int node, uint64_t address)
{
    struct peer *p = &job.peer[node];
    struct block *b = (struct block *)address;
    if (node != job.self) {
        if (smartmap_attach(p->smartmap_rank, p->pid) != 0 ||
            !smartmap_reachable(p->smartmap_rank, b, sizeof *b))
            return false;
        b = smartmap_remote((unsigned)p->smartmap_rank, b);
    }
    if (b->protocol != PROTOCOL || memcmp(&b->sizes, &job.sizes, sizeof job.sizes) != 0)
        return false;
    p->block = b;
    p->in = channel_end(job.block, node, &job.sizes);
    job.awaited[node] = channel_next(&p->in);
    p->out = channel_end(b, job.self, &job.sizes);
    return true;
}

static bool reach_all(const uint64_t *blocks)
{
    for (uint32_t node = 0; node < job.sizes.processes; node++)
        if (!reach((int)node, blocks[node]))
            return false;
    return match_start(&job.posted) && match_start(&job.unexpected);
}

/** All have voted yes; each votes before it goes on. */
static bool all_say_yes(void)
{
    for (uint32_t node = 0; node < job.sizes.processes; node++) {
        const struct peer *p = &job.peer[node];
        uint32_t verdict;
        while ((verdict = atomic_load(&p->block->verdict)) == VERDICT_NONE) {
            if (!smartmap_alive(p->smartmap_rank))
                return false;
            sched_yield();
        }
        if (verdict != VERDICT_YES)
            return false;
    }
    return true;
}

/** Fewer CPUs than processes: then spinning keeps a peer from running. */
static bool is_crowded(void)
{
    uint32_t cpus = 0;
    for (size_t word = 0; word < 32; word++) {
        uint32_t together = 0;
        for (uint32_t node = 0; node < job.sizes.processes; node++)
            together |= job.peer[node].block->cpus[word];
        cpus += (uint32_t)__builtin_popcount(together);
    }
    return cpus < job.sizes.processes;
}

static bool start_serving(void)
{
    OBJ_CONSTRUCT(&job.requests, opal_free_list_t);
    return opal_free_list_init(&job.requests, sizeof(struct request), LINE_BYTES,
                               OBJ_CLASS(smartmap_request_t), 0, 0, 8, -1, 64, NULL, 0, NULL,
                               NULL, NULL) == OPAL_SUCCESS;
}

static bool read_cards(ompi_group_t *world, uint64_t *blocks)
{
    bool all = (uint32_t)ompi_group_size(world) == job.sizes.processes;
    for (uint32_t node = 0; all && node < job.sizes.processes; node++)
        all = read_card(world, (int)node, &blocks[node]);
    return all;
}

/**
 * Transports bring only what other processes send.  They are polled once for
 * eight times that our channels are; Open MPI polls them each time again when
 * it meets further processes.
 */
static void demote_transports(void)
{
    mca_btl_base_selected_module_t *module;
    OPAL_LIST_FOREACH(module, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
        opal_progress_callback_t progress = module->btl_component->btl_progress;
        if (progress && opal_progress_unregister(progress) == OPAL_SUCCESS)
            opal_progress_register_lp(progress);
    }
}

/** Decide whether messages between the processes of this job are ours. */
void job_meet(ompi_communicator_t *world)
{
    job.id = OMPI_PROC_MY_NAME->jobid;
    job.self = (int)OMPI_PROC_MY_NAME->vpid;
    if (!job.block) {
        report("ob1 serves: no arena (not preloaded, ulimit -v or -f, or memfd refused), several nodes, or ULFM");
        return;
    }
    uint64_t *blocks = calloc(job.sizes.processes, sizeof *blocks);
    job.peer = calloc(job.sizes.processes, sizeof *job.peer);
    job.awaited = calloc(job.sizes.processes, sizeof *job.awaited);
    bool all = blocks && job.peer && job.awaited && read_cards(world->c_local_group, blocks);
    bool met = all && reach_all(blocks) && start_serving();
    free(blocks);
    atomic_store(&job.block->verdict, met ? VERDICT_YES : VERDICT_NO);
    job.ready = met && all_say_yes();
    if (!job.ready) {
        report(all ? "ob1 serves: not all processes reach each other, or their settings differ"
                   : "ob1 serves: a process has no arena or memory, or another version");
        return;
    }
    report("messages go through windows");
    job.crowded = is_crowded();
    job_watch_windows();
    demote_transports();
    opal_progress_register(smartmap_progress);
}

/** Nothing more comes from us or to us. */
void job_leave(void)
{
    if (job.ready)
        opal_progress_unregister(smartmap_progress);
}
