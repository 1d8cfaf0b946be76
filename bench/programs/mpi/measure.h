/* What the programs that repeat a turn of all ranks share.
 *
 * A sample is a batch of turns, as the first rank sees it, per turn.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <mpi.h>

#include "../bench.h"

enum { MOST_SAMPLES = 1001, WARM_UP = 3 };

static inline void check_numbers(uint64_t samples, uint64_t batch)
{
	check(samples > 0 && samples <= MOST_SAMPLES && batch > 0, "SAMPLES is 1 to 1001, BATCH at least 1");
}

/* The median over samples of what a turn takes, `shares` of it, which rank 0 reports. */
static inline void measure(const char *name, void (*turn)(int bytes), int bytes, int shares, uint64_t samples,
			   uint64_t batch)
{
	static double ticks[MOST_SAMPLES];
	int rank;

	for (uint64_t i = 0; i < WARM_UP * batch; i++)
		turn(bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	for (uint64_t i = 0; i < samples; i++) {
		uint64_t begin = tsc();
		for (uint64_t j = 0; j < batch; j++)
			turn(bytes);
		ticks[i] = (double)(tsc() - begin) / (double)batch / shares;
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0)
		report(name, median(ticks, samples));
}

static inline void barrier(int bytes)
{
	(void)bytes;
	MPI_Barrier(MPI_COMM_WORLD);
}

#endif
