/* Listing a large directory: opened, read by getdents64 and closed.
 *
 *   getdents [ENTRIES]
 *
 * The files are made before and removed afterwards, each timed as a whole.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

static const char dir[] = "getdents.dir";

static const char *file(uint64_t number)
{
	static char path[64];
	snprintf(path, sizeof path, "%s/%llu", dir, (unsigned long long)number);
	return path;
}

static void make(uint64_t entries)
{
	must(mkdir(dir, 0700) == 0, dir);
	for (uint64_t i = 0; i < entries; i++) {
		int fd = open(file(i), O_WRONLY | O_CREAT | O_EXCL, 0600);
		must(fd >= 0 && close(fd) == 0, file(i));
	}
}

static void remove_all(uint64_t entries)
{
	for (uint64_t i = 0; i < entries; i++)
		must(unlink(file(i)) == 0, file(i));
	must(rmdir(dir) == 0, dir);
}

/* What a listing found: names that are numbers, their sum, and the calls it took. */
struct listing {
	uint64_t files, sum, calls;
};

static void count(struct listing *all, const char *entries, long bytes)
{
	for (long at = 0; at < bytes;) {
		const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
		at += entry->d_reclen;
		if (entry->d_name[0] == '.')
			continue;
		all->files++;
		all->sum += strtoull(entry->d_name, NULL, 10);
	}
}

static struct listing list(void)
{
	/* As much as the C library's readdir requests. */
	static char entries[32768] __attribute__((aligned(8)));
	struct listing all = { 0, 0, 0 };
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	long bytes;

	must(fd >= 0, dir);
	do {
		bytes = syscall(SYS_getdents64, fd, entries, sizeof entries);
		must(bytes >= 0, "getdents64");
		count(&all, entries, bytes);
		all.calls++;
	} while (bytes > 0);
	must(close(fd) == 0, "close");
	return all;
}

int main(int argc, char **argv)
{
	uint64_t entries = number(argc, argv, 1, 10000);

	double start = seconds();
	make(entries);
	double made = seconds();
	uint64_t before = tsc();
	struct listing all = list();
	uint64_t ticks = tsc() - before;
	double listed = seconds();
	remove_all(entries);
	double removed = seconds();

	check(all.files == entries && all.sum == entries * (entries - 1) / 2, "the listing has other files");
	report("list_ticks", (double)ticks);
	report("list_seconds", listed - made);
	report("calls", (double)all.calls);
	report("make_seconds", made - start);
	report("remove_seconds", removed - listed);
	return 0;
}
