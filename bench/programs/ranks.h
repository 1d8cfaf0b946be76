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
#include <stdatomic.h>
#include <sys/auxv.h>

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

/* On Margay: the set of ranks that live, in the information page (wire/src/info.rs). */
static inline uint64_t living(void)
{
	enum { AT_MARGAY = 0x4d47 };
	const uint64_t *page = (const uint64_t *)getauxval(AT_MARGAY);

	must(page != NULL, "no rank on Margay");
	return atomic_load((const _Atomic uint64_t *)(page + 7));
}

/* There: what a rank that lives has at this address. */
static inline void *of_rank(uint64_t rank, const void *at)
{
	return (void *)((rank + 1) << 39 | (uintptr_t)at);
}

#endif
