/*
 * Words: 64 bits by which processes of a node know of each other without a
 * message.  Who has one leaves it with PMIx before Open MPI's start-up fence;
 * after it all fetch it.  A card is the word of who could take part: the ABI,
 * its SMARTMAP rank and its pid.
 */
#ifndef SMARTMAP_COMMON_WORD_H
#define SMARTMAP_COMMON_WORD_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "ompi/proc/proc.h"
#include "smartmap.h"
#if OMPI_MAJOR_VERSION >= 5 /* speaks to PMIx by PMIx's own names */
#include "ompi/runtime/ompi_rte.h"
#include "opal/mca/pmix/pmix-internal.h"
#define WORD_SCOPE PMIX_LOCAL
#define WORD_TYPE PMIX_UINT64
#else
#include "ompi/mca/rte/rte.h"
#include "opal/mca/pmix/pmix.h"
#define WORD_SCOPE OPAL_PMIX_LOCAL
#define WORD_TYPE OPAL_UINT64
#endif

/** Of this process, which must have an arena. */
static inline uint64_t own_card(void)
{
    return (uint64_t)SMARTMAP_ABI << 48 | (uint64_t)smartmap_rank() << 32 | (uint32_t)getpid();
}

/** Is it of our version?  0, for no card, is not. */
static inline bool card_is_ours(uint64_t card) { return card >> 48 == SMARTMAP_ABI; }

static inline int card_rank(uint64_t card) { return (int)(card >> 32 & 0xffff); }

static inline pid_t card_pid(uint64_t card) { return (pid_t)(card & 0xffffffff); }

static inline bool leave_word(const char *key, uint64_t word)
{
    int error;
    OPAL_MODEX_SEND_VALUE(error, WORD_SCOPE, (char *)key, &word, WORD_TYPE);
    return error == OPAL_SUCCESS;
}

/** 0: the process left none. */
static inline uint64_t fetch_word(const ompi_proc_t *proc, const char *key)
{
    int error;
    uint64_t word = 0, *value = &word;
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(error, key, &proc->super.proc_name, &value, WORD_TYPE);
    return error == OPAL_SUCCESS ? word : 0;
}

#endif
