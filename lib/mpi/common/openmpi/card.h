/*
 * Cards: what processes of this node know of each other without a message.
 */
#ifndef SMARTMAP_COMMON_CARD_H
#define SMARTMAP_COMMON_CARD_H

#include "ompi_config.h"

#include <stdbool.h>

#include "ompi/communicator/communicator.h"
#include "ompi/proc/proc.h"

/**
 * Say before Open MPI's start-up fence that this process could take part in
 * what the component with this key does; without an arena leave none.
 */
int smartmap_leave_card(const char *key);

/** Did a process of this node and job leave a card of our version? */
bool smartmap_left_card(const ompi_proc_t *proc);

/** Did all processes of an intracommunicator? All of them find the same. */
bool smartmap_all_left_cards(const ompi_communicator_t *comm);

/**
 * Fewer CPUs than processes of this job on this node, whichever of them a
 * communicator has: then spinning keeps some process from running.
 */
bool smartmap_is_crowded(void);

#endif
