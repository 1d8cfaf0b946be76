/* A file read or written from its beginning to its end in large calls.
 *
 *   file read|write FILE [BYTES] [BYTES-PER-CALL]
 *
 * Writing does not shorten the file first: its pages are there already.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

int main(int argc, char **argv)
{
	must(argc > 2, "usage: file read|write FILE [BYTES] [BYTES-PER-CALL]");
	int writing = strcmp(argv[1], "write") == 0;
	uint64_t bytes = number(argc, argv, 3, 1 << 30);
	size_t piece = number(argc, argv, 4, 1 << 20);
	char *buffer = malloc(piece);
	int fd = open(argv[2], writing ? O_WRONLY | O_CREAT : O_RDONLY, 0600);

	must(buffer != NULL, "malloc");
	must(fd >= 0, "open");
	memset(buffer, 'm', piece);
	double start = seconds();
	for (uint64_t done = 0; done < bytes;) {
		ssize_t got = writing ? write(fd, buffer, piece) : read(fd, buffer, piece);
		must(got > 0, writing ? "write" : "read");
		done += (uint64_t)got;
	}
	report("seconds", seconds() - start);
	must(close(fd) == 0, "close");
	return 0;
}
