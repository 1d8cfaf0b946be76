/* A program that prints a lot, through the C library's buffer.
 *
 *   printf [LINES] [FILE]
 *
 * FILE is /dev/null unless given; it is closed within the timed part.
 */
#include <sys/stat.h>

#include "bench.h"

int main(int argc, char **argv)
{
	uint64_t lines = number(argc, argv, 1, 100000), bytes = 0;
	const char *path = argc > 2 ? argv[2] : "/dev/null";
	FILE *out = fopen(path, "w");
	struct stat left;

	check(lines > 0, "usage: printf [LINES] [FILE]");
	must(out != NULL, path);
	double start = seconds();
	uint64_t before = tsc();
	for (uint64_t i = 0; i < lines; i++) {
		int printed = fprintf(out, "step %llu: residual %.6e after %d iterations\n", (unsigned long long)i,
				      1.0 / (double)(i + 1), (int)(i % 1000));
		must(printed > 0, path);
		bytes += (uint64_t)printed;
	}
	must(fclose(out) == 0, path);
	uint64_t ticks = tsc() - before;
	double taken = seconds() - start;

	must(stat(path, &left) == 0, path);
	check(!S_ISREG(left.st_mode) || (uint64_t)left.st_size == bytes, "the file does not hold what was printed");
	report("line_ticks", (double)ticks / (double)lines);
	report("seconds", taken);
	return 0;
}
