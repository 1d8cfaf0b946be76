/* Two ranks start, and end: how long from before MPI_Init to after
 * MPI_Finalize.
 */
#include <mpi.h>

#include "../bench.h"

int main(int argc, char **argv)
{
	uint64_t begin = tsc();
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Finalize();
	if (rank == 0)
		report("init_to_finalize_ticks", (double)(tsc() - begin));
	return 0;
}
