/* How much memory there is to be had: all of it is taken, touched and counted.
 *
 *   fill [CHURN]
 *
 * CHURN times before, memory is got, changed in every way that calls have for it,
 * also in ways that fail, and given back; what there is must not become less.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

enum {
	MIB = 1 << 20,
	MOST = 1 << 14,
	READ_WRITE = PROT_READ | PROT_WRITE,
	ANON = MAP_PRIVATE | MAP_ANONYMOUS,
};

static char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, READ_WRITE, ANON, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

/* Takes all there is and gives it back. */
static size_t all_there_is(void)
{
	static struct {
		char *at;
		size_t bytes;
	} taken[MOST];
	size_t sum = 0, count = 0;

	for (size_t bytes = 16 * MIB; bytes >= PAGE_BYTES; bytes /= 2)
		for (char *at; count < MOST && (at = map(bytes)) != NULL; sum += bytes) {
			for (size_t i = 0; i < bytes; i += PAGE_BYTES)
				at[i] = 1;
			taken[count].at = at;
			taken[count++].bytes = bytes;
		}
	while (count-- > 0)
		must(munmap(taken[count].at, taken[count].bytes) == 0, "munmap");
	return sum;
}

/* A partition is a few dozen MiB: a page that is lost in each round is missed at the end. */
static void churn(size_t round)
{
	size_t bytes = 3 * MIB + round % 7 * PAGE_BYTES;
	char *at = map(bytes), *moved;

	must(at != NULL, "mmap");
	at[round % 700 * PAGE_BYTES] = 1;
	must(mprotect(at + MIB, PAGE_BYTES, PROT_READ) == 0, "mprotect");
	must(mprotect(at + MIB / 2, MIB, PROT_NONE) == 0, "mprotect");
	must(mprotect(at + MIB / 2, MIB, READ_WRITE) == 0, "mprotect");
	must(madvise(at + 2 * PAGE_BYTES, MIB, MADV_DONTNEED) == 0, "madvise");
	moved = mremap(at, bytes, bytes + MIB, MREMAP_MAYMOVE);
	must(moved != MAP_FAILED, "mremap");
	must(mremap(moved, bytes + MIB, 1000ull << 30, 0) == MAP_FAILED, "mremap that fails");
	must(mmap(NULL, 1000ull << 30, READ_WRITE, ANON, -1, 0) == MAP_FAILED, "mmap that fails");
	must(mmap(moved + MIB, 5 * PAGE_BYTES, PROT_READ, ANON | MAP_FIXED, -1, 0) != MAP_FAILED,
	     "mmap over a part");
	must(munmap(moved + 2 * MIB, 7 * PAGE_BYTES) == 0, "munmap of a part");
	must(munmap(moved, bytes + MIB) == 0, "munmap");
	must(sbrk(9 * PAGE_BYTES) != (void *)-1 && sbrk(-9 * PAGE_BYTES) != (void *)-1, "sbrk");
}

int main(int argc, char **argv)
{
	uint64_t rounds = number(argc, argv, 1, 0);
	size_t before = all_there_is();

	for (uint64_t round = 0; round < rounds; round++)
		churn(round);
	size_t after = all_there_is();

	report("before_bytes", (double)before);
	report("after_bytes", (double)after);
	return 0;
}
