/* Noise by fixed time quanta: how much work gets done in each of many intervals
 * of the same length (FTQ, M. Sottile and R. Minnich, "Analysis of
 * Microbenchmarks for Performance Tuning of Clusters", CLUSTER 2004).
 *
 *   ftq [SAMPLES] [TICKS]
 *
 * Intervals follow each other without a gap, from one starting time on. A unit of
 * work is a turn of the loop, all bookkeeping included and without a branch, and an
 * interval is a whole number of units: so without noise all counts are the same,
 * where usual loops count one more now and then. Intervals end in the middle of a
 * unit, where it matters least how exactly its length is known. The original takes
 * powers of two for intervals. An interval that was lost as a whole counts 1.
 */
#define _GNU_SOURCE
#include "cores.h"
#include "detours.h"

enum { UNIT_TURNS = 500 };

/* Counts units of work in `samples` intervals. Also called to learn how long a unit is, so it must be the same code. */
static __attribute__((noinline)) void count_units(double *counts, size_t samples, uint64_t interval, uint64_t half_unit)
{
	uint64_t end = tsc() + interval - half_unit, done = 0, count = 0;

	while (done < samples) {
		work(UNIT_TURNS);
		uint64_t over = -(uint64_t)(tsc() >= end);
		counts[done] = (double)++count;
		done -= over;
		count &= ~over;
		end += interval & over;
	}
}

/* With intervals of no length, each unit is one. */
static double ticks_of_units(size_t units, void *counts)
{
	uint64_t start = tsc();
	count_units(counts, units, 0, 0);
	return (double)(tsc() - start);
}

int main(int argc, char **argv)
{
	enum { CALIBRATION_UNITS = 100 };
	size_t samples = number(argc, argv, 1, 2000), threads = team_size();
	uint64_t wanted = number(argc, argv, 2, 100000);
	double *counts = room_for(threads * samples + 2 * CALIBRATION_UNITS);

	check(samples > 0 && wanted > 0, "usage: ftq [SAMPLES] [TICKS]");
	double unit = turn_of(ticks_of_units, CALIBRATION_UNITS, counts).each;
	check(unit >= 1, "the TSC stands still");
	double units = (double)(uint64_t)((double)wanted / unit + 0.5);
	uint64_t interval = (uint64_t)((units < 1 ? 1 : units) * unit + 0.5);

	bind_threads();
	double start = seconds();
	OMP(omp parallel)
	count_units(counts + team_place() * samples, samples, interval, (uint64_t)(unit / 2));
	double taken = seconds() - start, least = counts[0], most = 0, longest = 0;
	for (size_t thread = 0; thread < threads; thread++) {
		double *own = counts + thread * samples, min = own[0], max = own[0], sum = 0;
		for (size_t i = 0; i < samples; i++) {
			min = own[i] < min ? own[i] : min;
			max = own[i] > max ? own[i] : max;
			sum += own[i];
		}
		check(sum >= (double)samples, "an interval without a unit of work");
		longest = max - min > longest ? max - min : longest;
		least = min < least ? min : least;
		most = max > most ? max : most;
	}
	report("longest_detour_ticks", longest * unit);
	report("unit_ticks", unit);
	report("interval_ticks", (double)interval);
	report("min_count", least);
	report("max_count", most);
	report("seconds", taken);
	report_series("ftq_count", counts, threads * samples);
	return 0;
}
