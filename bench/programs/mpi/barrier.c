/* Any number of ranks meet, also more than there are cores.
 *
 *   barrier [SAMPLES] [BATCH]
 */
#include "measure.h"

int main(int argc, char **argv)
{
	uint64_t samples = number(argc, argv, 1, 21), batch = number(argc, argv, 2, 50);

	check_numbers(samples, batch);
	MPI_Init(&argc, &argv);
	measure("barrier_ticks", barrier, 0, 1, samples, batch);
	MPI_Finalize();
	return 0;
}
