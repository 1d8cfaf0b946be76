/* Noise as a program sees it that does nothing but look for it: a loop reads the
 * TSC, and where two readings lie further apart than PERCENT of its shortest turn,
 * there was a detour (see detours.h for whose definition this is).
 *
 *   selfish [LOOPS] [PERCENT]
 *
 * Netgauge ends after so many detours, which a quiet system never does: here it
 * is after LOOPS turns, and the first 10,000 detours are kept.
 */
#include "detours.h"

int main(int argc, char **argv)
{
	enum { KEPT = 10000 };
	uint64_t loops = number(argc, argv, 1, 2000000), percent = number(argc, argv, 2, 900);
	struct detours all = { .at = room_for(KEPT), .ticks = room_for(KEPT), .room = KEPT };

	check(loops > 0 && percent > 100, "usage: selfish [LOOPS] [PERCENT]");
	struct turn turn = calibrate_detours(&all, percent);
	check(turn.each > 0, "the TSC stands still");
	double start = seconds();
	double ticks = (double)look_for_detours(&all, loops);
	double taken = seconds() - start;
	report_detours(&all, turn, (double)loops, ticks);
	report("seconds", taken);
	return 0;
}
