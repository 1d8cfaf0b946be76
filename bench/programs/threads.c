/* Threads one after the other: pthread_create of one that does nothing, and
 * pthread_join.
 *
 *   threads [ROUNDS]
 *
 * Median. The first threads are not counted: the C library keeps their stacks.
 */
#include <pthread.h>

#include "bench.h"

enum { FIRST = 10 };

static void *do_nothing(void *argument)
{
	return argument;
}

static uint64_t create_and_join(void)
{
	pthread_t thread;
	uint64_t before = tsc();
	int created = pthread_create(&thread, NULL, do_nothing, NULL);
	int joined = created == 0 ? pthread_join(thread, NULL) : 0;
	uint64_t after = tsc();

	check(created == 0 && joined == 0, "a thread could not be created or joined");
	return after - before;
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 1, 200);
	double *ticks = calloc(rounds, sizeof *ticks);

	check(ticks != NULL && rounds > 0, "usage: threads [ROUNDS]");
	for (size_t i = 0; i < FIRST; i++)
		create_and_join();
	for (size_t i = 0; i < rounds; i++)
		ticks[i] = (double)create_and_join();
	report("create_join_ticks", median(ticks, rounds));
	return 0;
}
