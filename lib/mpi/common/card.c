/*
 * Every process that could take part leaves a card with PMIx before Open MPI's
 * start-up fence: the ABI, its SMARTMAP rank and its pid in one number.  So
 * all ranks know alike, without a message, who can and who cannot.
 */
#define _GNU_SOURCE
#include "card.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "smartmap.h"
#if OMPI_MAJOR_VERSION >= 5 /* speaks to PMIx by PMIx's own names */
#include "ompi/runtime/ompi_rte.h"
#include "opal/mca/pmix/pmix-internal.h"
#define CARD_SCOPE PMIX_LOCAL
#define CARD_TYPE PMIX_UINT64
#else
#include "ompi/mca/rte/rte.h"
#include "opal/mca/pmix/pmix.h"
#define CARD_SCOPE OPAL_PMIX_LOCAL
#define CARD_TYPE OPAL_UINT64
#endif

static const char *card_key;

int smartmap_leave_card(const char *key)
{
    int error;
    card_key = key;
    if (!smartmap_available())
        return OMPI_SUCCESS;
    uint64_t card = (uint64_t)SMARTMAP_ABI << 48 | (uint64_t)smartmap_rank() << 32 |
                    (uint32_t)getpid();
    OPAL_MODEX_SEND_VALUE(error, CARD_SCOPE, (char *)key, &card, CARD_TYPE);
    return error == OPAL_SUCCESS ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}

static uint64_t fetch_card(const ompi_proc_t *proc)
{
    int error;
    uint64_t card = 0, *value = &card;
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(error, card_key, &proc->super.proc_name, &value,
                                    CARD_TYPE);
    return error == OPAL_SUCCESS ? card : 0;
}

/** A card never changes, so answers are kept: every new communicator asks for all members. */
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
        kept[i].card = fetch_card(proc);
    }
    bool left = kept[i].card >> 48 == SMARTMAP_ABI;
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
        pid_t pid = (pid_t)(fetch_card(procs[i]) & 0xffffffff);
        if (sched_getaffinity(pid, sizeof mask, &mask) == 0) /* pid 0: no card, take our own */
            CPU_OR(&together, &together, &mask);
    }
    free(procs);
    known = CPU_COUNT(&together) < processes ? 2 : 1;
    return known == 2;
}
