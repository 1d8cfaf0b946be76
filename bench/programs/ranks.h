/* How a process finds out which rank it is, without a message: by the
 * CPUs that it may use. Margay gives each rank its own, in order; elsewhere the
 * processes are started bound to CPUs of their own.
 */
#ifndef RANKS_H
#define RANKS_H

#ifndef _GNU_SOURCE
#error "ranks.h needs _GNU_SOURCE, defined before any header"
#endif
#include <sched.h>

#include "bench.h"

static inline unsigned own_rank(void)
{
	cpu_set_t cpus;
	unsigned first = 0;

	must(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 0, "sched_getaffinity");
	while (!CPU_ISSET(first, &cpus))
		first++;
	return first / (unsigned)CPU_COUNT(&cpus);
}

#endif
