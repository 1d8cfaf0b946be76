/* What constructs of OpenMP take besides the work in them, as the EPCC OpenMP
 * microbenchmarks measure it (J. M. Bull, "Measuring Synchronisation and
 * Scheduling Overheads in OpenMP", EWOMP 1999): the same work within the
 * construct, and without it on one thread.
 *
 *   constructs [ROUNDS] [REPEATS] [WORK]
 *
 * Median over ROUNDS of REPEATS constructs each, WORK turns of a loop in each
 * thread. Built without OpenMP it has no constructs, and says nothing.
 */
#define _GNU_SOURCE
#include "cores.h"

enum { THREADS = 2 };

static void work(uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		__asm__ volatile("" ::: "memory");
}

static void alone(uint64_t repeats, uint64_t turns)
{
	for (uint64_t i = 0; i < repeats; i++)
		work(turns);
}

static void in_parallel(uint64_t repeats, uint64_t turns)
{
	for (uint64_t i = 0; i < repeats; i++) {
		OMP(omp parallel num_threads(THREADS))
		work(turns);
	}
}

static void in_for(uint64_t repeats, uint64_t turns)
{
	for (uint64_t i = 0; i < repeats; i++) {
		OMP(omp parallel for num_threads(THREADS))
		for (int thread = 0; thread < THREADS; thread++)
			work(turns);
	}
}

static void between_barriers(uint64_t repeats, uint64_t turns)
{
	OMP(omp parallel num_threads(THREADS))
	for (uint64_t i = 0; i < repeats; i++) {
		work(turns);
		OMP(omp barrier)
	}
}

static double ticks_of(void (*run)(uint64_t, uint64_t), uint64_t repeats, uint64_t turns)
{
	uint64_t before = tsc();
	run(repeats, turns);
	return (double)(tsc() - before) / (double)repeats;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(uint64_t, uint64_t);
	} constructs[] = {
		{ "parallel_ticks", in_parallel },
		{ "parallel_for_ticks", in_for },
		{ "barrier_ticks", between_barriers },
	};
	uint64_t rounds = number(argc, argv, 1, 20), repeats = number(argc, argv, 2, 200), turns = number(argc, argv, 3, 500);
	double *ticks = calloc(rounds, sizeof *ticks), *plain = calloc(rounds, sizeof *plain);

	check(ticks != NULL && plain != NULL && rounds > 0 && repeats > 0, "usage: constructs [ROUNDS] [REPEATS] [WORK]");
	bind_threads();
	for (uint64_t i = 0; i < rounds; i++)
		plain[i] = ticks_of(alone, repeats, turns);
	double without = median(plain, rounds);
	for (size_t at = 0; at < sizeof constructs / sizeof constructs[0]; at++) {
		for (uint64_t i = 0; i < rounds; i++)
			ticks[i] = ticks_of(constructs[at].run, repeats, turns);
		report(constructs[at].name, median(ticks, rounds) - without);
	}
	return 0;
}
