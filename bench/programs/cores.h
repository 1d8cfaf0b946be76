/* Threads on cores of their own. The program binds them itself: a tuned Linux
 * would leave them all where the first one is.
 */
#ifndef CORES_H
#define CORES_H

#ifndef _GNU_SOURCE
#error "cores.h needs _GNU_SOURCE, defined before any header"
#endif
#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench.h"

/* The CPU that comes in place `nth` of those in the set. */
static inline int nth_cpu(const cpu_set_t *set, int nth)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && nth-- == 0)
			return cpu;
	check(0, "a core for each thread is needed");
	return -1;
}

/* Binds the calling thread to a CPU. */
static inline void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static inline cpu_set_t own_cpus(void)
{
	cpu_set_t set;

	must(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
	return set;
}

/* Threads of a parallel region; 1 in a program without OpenMP. */
static inline size_t team_size(void)
{
#ifdef _OPENMP
	return (size_t)omp_get_max_threads();
#else
	return 1;
#endif
}

/* Number of the calling thread in its region, from 0. */
static inline size_t team_place(void)
{
#ifdef _OPENMP
	return (size_t)omp_get_thread_num();
#else
	return 0;
#endif
}

/* Makes the threads of OpenMP and binds them; nothing in a program without. */
static inline void bind_threads(void)
{
#ifdef _OPENMP
	cpu_set_t set = own_cpus();

#pragma omp parallel
	bind_to(nth_cpu(&set, omp_get_thread_num()));
#endif
}

#endif
