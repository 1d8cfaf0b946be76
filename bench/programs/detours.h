/* What the noise programs share: work that takes the same time whenever nothing
 * comes between, and a loop that notices when something does.
 */
#ifndef DETOURS_H
#define DETOURS_H

#include <string.h>

#include "bench.h"

/* Two instructions per turn. */
static inline void work(uint64_t turns)
{
	__asm__ volatile("1: dec %0\n\t"
			 "jnz 1b"
			 : "+r"(turns)
			 :
			 : "cc");
}

/* Room for results, every page of it touched. */
static inline double *room_for(size_t values)
{
	double *room = malloc(values * sizeof *room);
	must(room != NULL, "malloc");
	memset(room, 1, values * sizeof *room);
	return room;
}

/* How long a turn of a loop takes when nothing comes between, and what is around the loop. */
struct turn {
	double each, around;
};

/* Finds out by the quickest of many short runs of it, with so many turns and twice as many. */
static inline struct turn turn_of(double (*run)(size_t turns, void *data), size_t turns, void *data)
{
	enum { TRIES = 200 };
	double once = run(turns, data), twice = run(2 * turns, data);
	for (int i = 0; i < TRIES; i++) {
		double a = run(turns, data), b = run(2 * turns, data);
		once = a < once ? a : once;
		twice = b < twice ? b : twice;
	}
	return (struct turn){ (twice - once) / (double)turns, 2 * once - twice };
}

/* What a loop that does nothing but read the TSC noticed: the selfish detour benchmark (P. Beckman, K. Iskra,
 * K. Yoshii, S. Coghlan, "The Influence of Operating Systems on the Performance of Collective Operations at Extreme
 * Scale", CLUSTER 2006) as in Netgauge (T. Hoefler, T. Schneider, A. Lumsdaine, "Characterizing the Influence of System
 * Noise on Large-Scale Applications by Simulation", SC 2010). */
struct detours {
	/* Between two readings that makes a detour, in ticks. */
	uint64_t threshold;
	/* Detours seen, and the longest. */
	uint64_t seen, longest;
	/* When the first of them began, since the loop did, and how long they were; room for `room` of them. */
	double *at, *ticks;
	size_t room;
};

static inline void note_detour(struct detours *all, uint64_t at, uint64_t ticks)
{
	if (all->seen < all->room) {
		all->at[all->seen] = (double)at;
		all->ticks[all->seen] = (double)ticks;
	}
	all->longest = ticks > all->longest ? ticks : all->longest;
	all->seen++;
}

/* Returns the ticks of all turns. */
static __attribute__((noinline, unused)) uint64_t look_for_detours(struct detours *all, uint64_t turns)
{
	uint64_t start = tsc(), now = start, threshold = all->threshold;

	while (turns-- > 0) {
		uint64_t before = now;
		now = tsc();
		if (__builtin_expect(now - before > threshold, 0))
			note_detour(all, before - start, now - before);
	}
	return now - start;
}

static inline double ticks_of_looking(size_t turns, void *unused)
{
	struct detours none = { .threshold = UINT64_MAX };
	(void)unused;
	return (double)look_for_detours(&none, turns);
}

/* The loop's turn, and a threshold of so many percent of it. */
static inline struct turn calibrate_detours(struct detours *all, uint64_t percent)
{
	struct turn turn = turn_of(ticks_of_looking, 200, NULL);
	all->threshold = (uint64_t)(turn.each * (double)percent / 100);
	return turn;
}

static inline void report_detours(const struct detours *all, struct turn turn, double turns, double ticks)
{
	size_t kept = all->seen < all->room ? all->seen : all->room;
	report("longest_detour_ticks", (double)all->longest);
	report("detours", (double)all->seen);
	report("lost_ticks", ticks - turn.around - turns * turn.each);
	report("loop_ticks", turn.each);
	report_series("detour_at", all->at, kept);
	report_series("detour_ticks", all->ticks, kept);
}

#endif
