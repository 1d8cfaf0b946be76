/* Noise by fixed work quanta: the same work many times over, each time timed
 * (FWQ of the ASC Sequoia benchmarks, M. Sottile and M. Seager, after M. Sottile
 * and R. Minnich, "Analysis of Microbenchmarks for Performance Tuning of
 * Clusters", CLUSTER 2004).
 *
 *   fwq [SAMPLES] [WORK]
 *
 * WORK is turns of a loop of two instructions. What a sample takes beyond the
 * shortest one of its thread was taken from the program by other code.
 */
#define _GNU_SOURCE
#include "cores.h"
#include "detours.h"

static void take_samples(double *ticks, size_t samples, uint64_t turns)
{
	for (size_t i = 0; i < samples; i++) {
		uint64_t before = tsc();
		work(turns);
		ticks[i] = (double)(tsc() - before);
	}
}

int main(int argc, char **argv)
{
	size_t samples = number(argc, argv, 1, 2000), threads = team_size();
	uint64_t turns = number(argc, argv, 2, 50000);

	check(samples > 0 && turns > 0, "usage: fwq [SAMPLES] [WORK]");
	double *ticks = room_for(threads * samples);
	bind_threads();
	double start = seconds();
	OMP(omp parallel)
	take_samples(ticks + team_place() * samples, samples, turns);
	double taken = seconds() - start, least = ticks[0], most = 0, longest = 0;
	for (size_t thread = 0; thread < threads; thread++) {
		double *own = ticks + thread * samples, min = own[0], max = own[0];
		for (size_t i = 0; i < samples; i++) {
			min = own[i] < min ? own[i] : min;
			max = own[i] > max ? own[i] : max;
		}
		longest = max - min > longest ? max - min : longest;
		least = min < least ? min : least;
		most = max > most ? max : most;
	}
	/* It executes that many instructions, and the clock is no slower. */
	check(least >= 1, "the TSC stands still");
	report("longest_detour_ticks", longest);
	report("min_ticks", least);
	report("max_ticks", most);
	report("seconds", taken);
	report_series("fwq_ticks", ticks, threads * samples);
	return 0;
}
