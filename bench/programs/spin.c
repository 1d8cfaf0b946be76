/* A program that computes and makes no requests to the kernel.
 *
 *   spin [SECONDS]
 *
 * The time comes from the vDSO. What the kernel did meanwhile is in its own
 * counters, which the harness compares with those of a run of 0 seconds.
 */
#include "bench.h"

int main(int argc, char **argv)
{
	double length = argc > 1 ? atof(argv[1]) : 10, start = seconds();
	uint64_t rounds = 0;

	while (seconds() - start < length)
		for (volatile int i = 0; i < 1000; i++)
			rounds++;
	report("rounds", (double)rounds);
	return 0;
}
