/* Collectives of two ranks, at three sizes.
 *
 *   collectives [SAMPLES]
 *
 * A sample is a batch of calls, as the slower rank saw it, per call. Buffers
 * stay the same from call to call. Every result is checked after the batches.
 */
#include <mpi.h>
#include <stdbool.h>
#include <string.h>

#include "../bench.h"

enum { MOST_BYTES = 64 << 10, MOST_SAMPLES = 1001, MOST_RANKS = 8, WARM_UP = 3 };

static double out[MOST_RANKS * MOST_BYTES / 8], in[MOST_RANKS * MOST_BYTES / 8];
static int rank, size;

/* What rank `from` sends as its word `at`. */
static double word(int from, int at)
{
	return from * 1000 + at % 100;
}

static void barrier(int words)
{
	(void)words;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int words)
{
	MPI_Bcast(rank == 0 ? out : in, words, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static bool bcast_right(int words, int at)
{
	(void)words;
	return rank == 0 || in[at] == word(0, at);
}

static void allreduce(int words)
{
	MPI_Allreduce(out, in, words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static bool allreduce_right(int words, int at)
{
	double sum = 0;

	(void)words;
	for (int from = 0; from < size; from++)
		sum += word(from, at);
	return in[at] == sum;
}

static void alltoall(int words)
{
	MPI_Alltoall(out, words, MPI_DOUBLE, in, words, MPI_DOUBLE, MPI_COMM_WORLD);
}

static bool alltoall_right(int words, int at)
{
	for (int from = 0; from < size; from++)
		if (in[from * words + at] != word(from, rank * words + at))
			return false;
	return true;
}

static void gather(int words)
{
	MPI_Gather(out, words, MPI_DOUBLE, in, words, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static bool gather_right(int words, int at)
{
	for (int from = 0; rank == 0 && from < size; from++)
		if (in[from * words + at] != word(from, at))
			return false;
	return true;
}

static const struct {
	const char *name;
	void (*call)(int words);
	bool (*right)(int words, int at);
} collectives[] = {
	{ "bcast", bcast, bcast_right },
	{ "allreduce", allreduce, allreduce_right },
	{ "alltoall", alltoall, alltoall_right },
	{ "gather", gather, gather_right },
};

static void measure(const char *name, void (*call)(int words), int words, uint64_t samples)
{
	static double mine[MOST_SAMPLES], slowest[MOST_SAMPLES];
	uint64_t calls = words <= 128 ? 100 : 20;

	for (uint64_t i = 0; i < WARM_UP * calls; i++)
		call(words);
	for (uint64_t i = 0; i < samples; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		uint64_t begin = tsc();
		for (uint64_t j = 0; j < calls; j++)
			call(words);
		mine[i] = (double)(tsc() - begin) / (double)calls;
	}
	MPI_Reduce(mine, slowest, (int)samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		report(name, median(slowest, samples));
}

int main(int argc, char **argv)
{
	static const int bytes[] = { 8, 1 << 10, MOST_BYTES };
	uint64_t samples = number(argc, argv, 1, 51);
	char name[64];

	check(samples > 0 && samples <= MOST_SAMPLES, "SAMPLES is 1 to 1001");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	check(size <= MOST_RANKS, "too many ranks");
	for (int i = 0; i < size * MOST_BYTES / 8; i++)
		out[i] = word(rank, i);
	measure("barrier_ticks", barrier, 0, samples);
	for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++)
		for (size_t s = 0; s < sizeof bytes / sizeof *bytes; s++) {
			int words = bytes[s] / 8;
			memset(in, 0, sizeof in);
			snprintf(name, sizeof name, "%s_%d_ticks", collectives[c].name, bytes[s]);
			measure(name, collectives[c].call, words, samples);
			for (int at = 0; at < words; at++)
				check(collectives[c].right(words, at), collectives[c].name);
		}
	MPI_Finalize();
	return 0;
}
