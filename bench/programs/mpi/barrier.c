/* Any number of ranks meet, also more than there are cores.
 *
 *   barrier [SAMPLES] [BATCH]
 *
 * A sample is a batch of BATCH barriers, as the first rank sees it, per barrier.
 */
#include <mpi.h>

#include "../bench.h"

enum { MOST_SAMPLES = 1001, WARM_UP = 3 };

int main(int argc, char **argv)
{
	static double ticks[MOST_SAMPLES];
	uint64_t samples = number(argc, argv, 1, 21), batch = number(argc, argv, 2, 50);
	int rank;

	check(samples > 0 && samples <= MOST_SAMPLES && batch > 0, "SAMPLES is 1 to 1001, BATCH at least 1");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (uint64_t i = 0; i < WARM_UP * batch; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	for (uint64_t i = 0; i < samples; i++) {
		uint64_t begin = tsc();
		for (uint64_t j = 0; j < batch; j++)
			MPI_Barrier(MPI_COMM_WORLD);
		ticks[i] = (double)(tsc() - begin) / (double)batch;
	}
	if (rank == 0)
		report("barrier_ticks", median(ticks, samples));
	MPI_Finalize();
	return 0;
}
