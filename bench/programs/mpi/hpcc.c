/* Debian's hpcc, the HPC Challenge, as its launcher has started this program.
 *
 *   hpcc [N] [BLOCK]
 *
 * It reads hpccinf.txt and writes hpccoutf.txt, both in the working directory
 * and both by rank 0. Here that one makes them: the former with a matrix of
 * N x N in blocks of BLOCK, of which all other sizes follow, and a grid of
 * 1 x 2 processes; the latter as another name of standard output. Its summary
 * has lines "name=value".
 */
#include <string.h>
#include <unistd.h>

#include "../bench.h"

/* As its README has it: values, each with what it is; the lines of what there is 1 of, or nothing. */
static const char input[] =
	"HPL input\nby bench/programs/mpi/hpcc.c\n"
	"HPL.out output file\n6 device\n"
	"1 problem sizes\n%llu N\n1 block sizes\n%llu NB\n"
	"0 mapping by row\n1 grids\n1 P\n2 Q\n16.0 threshold\n"
	"1 panel factorizations\n2 right\n1 recursion ends\n4 NBMIN\n1 panels\n2 NDIV\n"
	"1 recursive factorizations\n1 Crout\n1 broadcasts\n1 one ring, modified\n1 depths\n1 depth\n"
	"2 swap mix\n64 threshold\n0 L1 transposed\n0 U transposed\n1 equilibration\n8 alignment\n"
	"-\n0 more sizes of PTRANS\n0 values\n0 more blocks of PTRANS\n0 values\n";

int main(int argc, char **argv)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	check(rank != NULL, "not started by Open MPI's launcher");
	if (strcmp(rank, "0") == 0) {
		FILE *file = fopen("hpccinf.txt", "w");
		must(file != NULL, "hpccinf.txt");
		fprintf(file, input, (unsigned long long)number(argc, argv, 1, 400),
			(unsigned long long)number(argc, argv, 2, 40));
		must(fclose(file) == 0, "hpccinf.txt");
		unlink("hpccoutf.txt");
		must(symlink("/proc/self/fd/1", "hpccoutf.txt") == 0, "hpccoutf.txt");
	}
	/* Each rank has one core. */
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	execl("/usr/bin/hpcc", "hpcc", (char *)NULL);
	must(0, "/usr/bin/hpcc");
	return 1;
}
