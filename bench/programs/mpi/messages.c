/* Two ranks exchange messages: what MPI takes from each for the shortest, for
 * 64 KiB, and to meet. Of 64 KiB there are two cases: what is sent is never
 * written, and each rank has one buffer, allocated alike in both, that it
 * sends what it got from.
 *
 *   messages [SAMPLES] [BATCH]
 *
 * Calls that the kernel refuses mark the first ping-pong for a trace of
 * calls.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

enum { LONG_BYTES = 64 << 10 };

static char out[LONG_BYTES], in[LONG_BYTES], *same;
static int rank, other;

static void exchange(char *from, char *to, int bytes)
{
	if (rank == 0) {
		MPI_Send(from, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
		MPI_Recv(to, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(to, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(from, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
	}
}

static void ping_pong(int bytes)
{
	exchange(out, in, bytes);
}

static void ping_pong_same(int bytes)
{
	exchange(same, same, bytes);
}

static void allreduce(int bytes)
{
	double one = 1, sum = 0;

	(void)bytes;
	MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	check(sum == 2, "a wrong sum");
}

static void mark(const char *text)
{
	check(write(-1, text, strlen(text)) < 0, "a mark was written");
}

int main(int argc, char **argv)
{
	uint64_t samples = number(argc, argv, 1, 51), batch = number(argc, argv, 2, 100);
	int size;

	check_numbers(samples, batch);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	check(size == 2, "two ranks are wanted");
	other = 1 - rank;
	memset(out, 'a' + rank, sizeof out);

	/* Both have met, and the first messages are over. */
	for (uint64_t i = 0; i < WARM_UP * batch; i++)
		ping_pong(8);
	double begin = seconds();
	mark("ping-pong begins");
	for (uint64_t i = 0; i < samples * batch; i++)
		ping_pong(8);
	mark("ping-pong ends");
	double marked = seconds() - begin;

	measure("pingpong_8b_ticks", ping_pong, 8, 2, samples, batch);
	measure("oneway_64k_ticks", ping_pong, LONG_BYTES, 2, samples, batch / 10 + 1);
	for (int i = 0; i < LONG_BYTES; i++)
		check(in[i] == 'a' + other, "a wrong message");
	same = malloc(LONG_BYTES);
	check(same != NULL, "no memory");
	memset(same, 'a' + rank, LONG_BYTES);
	measure("oneway_64k_same_ticks", ping_pong_same, LONG_BYTES, 2, samples, batch / 10 + 1);
	for (int i = 0; i < LONG_BYTES; i++)
		check(same[i] == 'a', "a wrong message");
	free(same);
	measure("barrier_ticks", barrier, 0, 1, samples, batch);
	measure("allreduce_8b_ticks", allreduce, 8, 1, samples, batch);
	if (rank == 0)
		report("marked_seconds", marked);
	MPI_Finalize();
	return 0;
}
