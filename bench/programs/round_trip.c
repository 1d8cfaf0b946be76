/* A futex from one core to another and back: two threads, each bound to a core
 * of its own, wake each other in turn.
 *
 *   round_trip [ROUNDS]
 *
 * Median. The first rounds are not counted.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cores.h"

enum { FIRST = 20, THREADS = 2 };

static uint64_t rounds;
/* Whose turn it is: each waits until its word is 1. */
static uint32_t turn[THREADS] __attribute__((aligned(64)));
static int core[THREADS];

static void give(int thread)
{
	__atomic_store_n(&turn[thread], 1, __ATOMIC_RELEASE);
	must(syscall(SYS_futex, &turn[thread], FUTEX_WAKE_PRIVATE, 1) >= 0, "waking");
}

static void take(int thread)
{
	while (__atomic_load_n(&turn[thread], __ATOMIC_ACQUIRE) == 0)
		syscall(SYS_futex, &turn[thread], FUTEX_WAIT_PRIVATE, 0, NULL);
	__atomic_store_n(&turn[thread], 0, __ATOMIC_RELAXED);
}

static void *answer(void *unused)
{
	bind_to(core[1]);
	for (uint64_t i = 0; i < rounds; i++) {
		take(1);
		give(0);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t other;

	rounds = FIRST + number(argc, argv, 1, 2000);
	double *ticks = calloc(rounds, sizeof *ticks);
	check(ticks != NULL && rounds > FIRST, "usage: round_trip [ROUNDS]");
	cpu_set_t set = own_cpus();
	for (int thread = 0; thread < THREADS; thread++)
		core[thread] = nth_cpu(&set, thread);
	bind_to(core[0]);
	check(pthread_create(&other, NULL, answer, NULL) == 0, "no second thread");
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t before = tsc();
		give(1);
		take(0);
		ticks[i] = (double)(tsc() - before);
	}
	check(pthread_join(other, NULL) == 0, "the second thread could not be joined");
	report("round_trip_ticks", median(ticks + FIRST, rounds - FIRST));
	return 0;
}
