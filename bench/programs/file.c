/* A file read or written from its beginning to its end in calls of one size.
 *
 *   file read|write FILE [BYTES] [BYTES-PER-CALL]
 *
 * Writing does not shorten the file first: its pages are there already. Reading
 * needs a file that this program wrote.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

/* What all bytes of the file are. */
static const char content = 'm';

int main(int argc, char **argv)
{
	check(argc > 2, "usage: file read|write FILE [BYTES] [BYTES-PER-CALL]");
	int writing = strcmp(argv[1], "write") == 0;
	uint64_t bytes = number(argc, argv, 3, 1 << 30), calls = 0;
	size_t piece = number(argc, argv, 4, 1 << 20), wrong = 0;
	char *buffer = malloc(piece);
	int fd = open(argv[2], writing ? O_WRONLY | O_CREAT : O_RDONLY, 0600);
	struct stat left;

	check(bytes > 0 && piece > 0, "BYTES and BYTES-PER-CALL are at least 1");
	must(buffer != NULL, "malloc");
	must(fd >= 0, "open");
	memset(buffer, content, piece);
	double start = seconds();
	uint64_t before = tsc();
	for (uint64_t done = 0; done < bytes; calls++) {
		/* So that it is seen whether the call filled it. */
		if (!writing)
			buffer[0] = 0;
		ssize_t got = writing ? write(fd, buffer, piece) : read(fd, buffer, piece);
		must(got >= 0, writing ? "write" : "read");
		check(got > 0, "the file ended early");
		wrong += buffer[0] != content || buffer[got - 1] != content;
		done += (uint64_t)got;
	}
	uint64_t ticks = tsc() - before;
	double taken = seconds() - start;
	for (size_t i = 0; i < piece; i++)
		wrong += buffer[i] != content;
	check(wrong == 0, "the file holds something else");
	must(fstat(fd, &left) == 0, "fstat");
	check((uint64_t)left.st_size >= bytes, "the file is shorter than what was written");
	must(close(fd) == 0, "close");
	report("seconds", taken);
	report("call_ticks", (double)ticks / (double)calls);
	return 0;
}
