/* A pipe within a process: a write, and the read of what was written.
 *
 *   pipe [ROUNDS] [BYTES]
 *
 * BYTES must fit into a pipe, 65536 at most.
 */
#include <string.h>
#include <unistd.h>

#include "bench.h"

int main(int argc, char **argv)
{
	enum { MOST = 65536 };
	static char to[MOST], from[MOST];
	size_t rounds = number(argc, argv, 1, 2000), bytes = number(argc, argv, 2, 1);
	double *ticks = calloc(rounds, sizeof *ticks);
	int ends[2];

	check(ticks != NULL && rounds > 0 && bytes > 0 && bytes <= MOST, "usage: pipe [ROUNDS] [BYTES]");
	must(pipe(ends) == 0, "pipe");
	double start = seconds();
	for (size_t i = 0; i < rounds; i++) {
		from[0] = from[bytes - 1] = (char)i;
		uint64_t before = tsc();
		ssize_t out = write(ends[1], from, bytes), in = read(ends[0], to, bytes);
		ticks[i] = (double)(tsc() - before);
		must(out == (ssize_t)bytes && in == (ssize_t)bytes, "pipe");
		check(memcmp(to, from, bytes) == 0, "what came out is not what went in");
	}
	double taken = seconds() - start;
	report("round_ticks", median(ticks, rounds));
	report("seconds", taken);
	return 0;
}
