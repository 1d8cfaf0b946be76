/* Files opened and closed: new ones, and those again.
 *
 *   opens [FILES] [DIRECTORY]
 *
 * They are made in DIRECTORY (/dev/shm), and removed. A system call is host work.
 */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"

/* The name of file number `i`, which the caller uses before the next. */
static const char *name_of(const char *directory, size_t i)
{
	static char name[4096];

	must(snprintf(name, sizeof name, "%s/opens-%d-%zu", directory, getpid(), i) < (int)sizeof name, "name");
	return name;
}

static double us_of_open(const char *name, int flags)
{
	double start = seconds();
	int fd = open(name, flags, 0600);

	must(fd >= 0, "open");
	must(close(fd) == 0, "close");
	return 1e6 * (seconds() - start);
}

int main(int argc, char **argv)
{
	size_t files = number(argc, argv, 1, 1000);
	const char *directory = argc > 2 ? argv[2] : "/dev/shm";
	double *creates = calloc(files, sizeof *creates), *opens = calloc(files, sizeof *opens);

	must(files > 0 && creates != NULL && opens != NULL, "calloc");
	for (size_t i = 0; i < files; i++)
		creates[i] = us_of_open(name_of(directory, i), O_WRONLY | O_CREAT | O_EXCL);
	for (size_t i = 0; i < files; i++)
		opens[i] = us_of_open(name_of(directory, i), O_RDONLY);
	for (size_t i = 0; i < files; i++)
		must(unlink(name_of(directory, i)) == 0, "unlink");
	report("create_us", median(creates, files));
	report("open_us", median(opens, files));
	return 0;
}
