/* A file mapped and shared, a byte of each page read, and unmapped, again and again.
 *
 *   file_map FILE [BYTES] [ROUNDS]
 *
 * The median round; the program writes the file first.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

int main(int argc, char **argv)
{
	check(argc > 1, "usage: file_map FILE [BYTES] [ROUNDS]");
	size_t bytes = number(argc, argv, 2, 1 << 20), rounds = number(argc, argv, 3, 200);
	double *ticks = calloc(rounds, sizeof *ticks);
	char *content = malloc(bytes);
	int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	size_t sum = 0;

	check(ticks != NULL && content != NULL && rounds > 0, "ROUNDS is at least 1");
	must(fd >= 0, "open");
	memset(content, 1, bytes);
	must(write(fd, content, bytes) == (ssize_t)bytes, "write");
	for (size_t i = 0; i < rounds; i++) {
		uint64_t start = tsc();
		char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		must(at != MAP_FAILED, "mmap");
		for (size_t page = 0; page < bytes; page += PAGE_BYTES)
			sum += ((volatile char *)at)[page];
		must(munmap(at, bytes) == 0, "munmap");
		ticks[i] = (double)(tsc() - start);
	}
	check(sum == rounds * ((bytes + PAGE_BYTES - 1) / PAGE_BYTES), "the mapping holds something else");
	report("pair_ticks", median(ticks, rounds));
	return 0;
}
