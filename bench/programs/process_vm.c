/* What process_vm_readv costs besides the copy: once per call, and for each
 * page of 4 KiB.
 *
 *   process_vm [ROUNDS]
 *
 * On the process itself, which takes the same way. Kernels copy eight bytes in
 * an iteration, which an emulator counts as one instruction; so much is taken
 * off. Medians of calls.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

enum { SIZES = 3, MOST_BYTES = 1 << 20, COPIED_AT_ONCE = 8 };

static const struct {
	const char *name;
	size_t bytes;
} sizes[SIZES] = { { "4K", 4 << 10 }, { "64K", 64 << 10 }, { "1M", MOST_BYTES } };

static char *filled(int with)
{
	char *at = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(at != MAP_FAILED, "mmap");
	memset(at, with, MOST_BYTES);
	return at;
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 1, 50);
	double *ticks = calloc(rounds, sizeof *ticks), found[SIZES];
	char *from = filled(1), *to = filled(2);
	pid_t own = getpid();

	check(ticks != NULL && rounds > 0, "usage: process_vm [ROUNDS]");
	for (int s = 0; s < SIZES; s++) {
		struct iovec local = { to, sizes[s].bytes }, remote = { from, sizes[s].bytes };
		for (size_t i = 0; i < rounds; i++) {
			uint64_t start = tsc();
			ssize_t got = process_vm_readv(own, &local, 1, &remote, 1, 0);
			ticks[i] = (double)(tsc() - start);
			must(got == (ssize_t)sizes[s].bytes, "process_vm_readv");
		}
		found[s] = median(ticks, rounds) - (double)(sizes[s].bytes / COPIED_AT_ONCE);
	}
	check(memcmp(from, to, MOST_BYTES) == 0, "not what was read");
	double page = (found[SIZES - 1] - found[0]) / (double)((MOST_BYTES - sizes[0].bytes) / PAGE_BYTES);
	report("page_ticks", page);
	report("fixed_ticks", found[0] - page);
	for (int s = 0; s < SIZES; s++) {
		char name[32];
		snprintf(name, sizeof name, "read_%s", sizes[s].name);
		report(name, found[s]);
	}
	return 0;
}
