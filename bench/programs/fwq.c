/* Noise by fixed work quanta: the same work many times over, each time timed
 * (FWQ of the ASC Sequoia benchmarks, M. Sottile and M. Seager, after M. Sottile
 * and R. Minnich, "Analysis of Microbenchmarks for Performance Tuning of
 * Clusters", CLUSTER 2004).
 *
 *   fwq [SAMPLES] [WORK]
 *
 * WORK is turns of a loop of two instructions. What a sample takes beyond the
 * shortest one was taken from the program by somebody else.
 */
#include "detours.h"

int main(int argc, char **argv)
{
	size_t samples = number(argc, argv, 1, 2000);
	uint64_t turns = number(argc, argv, 2, 50000);
	double *ticks = room_for(samples);

	check(samples > 0 && turns > 0, "usage: fwq [SAMPLES] [WORK]");
	double start = seconds();
	for (size_t i = 0; i < samples; i++) {
		uint64_t before = tsc();
		work(turns);
		ticks[i] = (double)(tsc() - before);
	}
	double taken = seconds() - start, min = ticks[0], max = ticks[0];
	for (size_t i = 0; i < samples; i++) {
		min = ticks[i] < min ? ticks[i] : min;
		max = ticks[i] > max ? ticks[i] : max;
	}
	/* It executes that many instructions, and the clock is no slower. */
	check(min >= 1, "the TSC stands still");
	report("longest_detour_ticks", max - min);
	report("min_ticks", min);
	report("max_ticks", max);
	report("seconds", taken);
	report_series("fwq_ticks", ticks, samples);
	return 0;
}
