/* Noise as a program sees it that does nothing but look for it: a loop reads the
 * TSC, and where two readings lie further apart than PERCENT of its shortest turn,
 * there was a detour (see detours.h for whose definition this is).
 *
 *   selfish [LOOPS] [PERCENT]
 *
 * Netgauge ends after so many detours, which a quiet system never does: here it
 * is after LOOPS turns, and the first 10,000 detours are kept. Of several threads
 * the one counts that lost most.
 */
#define _GNU_SOURCE
#include "cores.h"
#include "detours.h"

int main(int argc, char **argv)
{
	enum { KEPT = 10000 };
	uint64_t loops = number(argc, argv, 1, 2000000), percent = number(argc, argv, 2, 900);
	size_t threads = team_size(), worst = 0;
	struct detours *all = calloc(threads, sizeof *all), first = { 0 };
	double *ticks = room_for(threads);

	check(all != NULL && loops > 0 && percent > 100, "usage: selfish [LOOPS] [PERCENT]");
	struct turn turn = calibrate_detours(&first, percent);
	check(turn.each > 0, "the TSC stands still");
	for (size_t i = 0; i < threads; i++)
		all[i] = (struct detours){ .threshold = first.threshold, .at = room_for(KEPT), .ticks = room_for(KEPT), .room = KEPT };
	bind_threads();
	double start = seconds();
	OMP(omp parallel)
	ticks[team_place()] = (double)look_for_detours(&all[team_place()], loops);
	double taken = seconds() - start;
	for (size_t i = 0; i < threads; i++)
		worst = ticks[i] > ticks[worst] ? i : worst;
	report_detours(&all[worst], turn, (double)loops, ticks[worst]);
	report("seconds", taken);
	return 0;
}
