/*
 * Every process that could take part leaves a card (word.h).  So all ranks know
 * alike, without a message, who can and who cannot.
 */
#define _GNU_SOURCE
#include "card.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "word.h"

static const char *card_key;

int smartmap_leave_card(const char *key)
{
    card_key = key;
    return !smartmap_available() || leave_word(key, own_card()) ? OMPI_SUCCESS
                                                                : OMPI_ERR_NOT_AVAILABLE;
}

/** A card never changes, so answers are kept: every new communicator needs those of all members. */
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
    if (name.jobid != OMPI_PROC_MY_NAME->jobid)
        return false; /* of a job that PMIx may show to some ranks only */
    pthread_mutex_lock(&lock);
    if (kept[i].card == 0 || kept[i].name.vpid != name.vpid) {
        kept[i].name = name;
        kept[i].card = fetch_word(proc, card_key);
    }
    bool left = card_is_ours(kept[i].card);
    pthread_mutex_unlock(&lock);
    return left;
}

bool smartmap_all_left_cards(const ompi_communicator_t *comm)
{
    for (int r = 0; r < ompi_comm_size((ompi_communicator_t *)comm); r++)
        if (!smartmap_left_card(ompi_group_peer_lookup(comm->c_local_group, r)))
            return false;
    return true;
}

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
        pid_t pid = card_pid(fetch_word(procs[i], card_key));
        if (sched_getaffinity(pid, sizeof mask, &mask) == 0) /* pid 0: no card, take our own */
            CPU_OR(&together, &together, &mask);
    }
    free(procs);
    known = CPU_COUNT(&together) < processes ? 2 : 1;
    return known == 2;
}
