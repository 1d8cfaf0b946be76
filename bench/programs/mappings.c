/* What it costs to get memory and give it back, whatever its size: pairs of
 * mmap and munmap, and of growing and shrinking the heap.
 *
 *   mappings [ROUNDS]
 *
 * Medians of pairs. The loop around a pair is not in it, the two readings of
 * the TSC are.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = { { "4K", 4 << 10 }, { "64K", 64 << 10 }, { "1M", 1 << 20 }, { "16M", 16 << 20 } };

static void touch(volatile char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE_BYTES)
		at[i] = 1;
}

static double map_pair(size_t bytes, int touched)
{
	uint64_t start = tsc();
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(at != MAP_FAILED, "mmap");
	if (touched)
		touch(at, bytes);
	must(munmap(at, bytes) == 0, "munmap");
	return (double)(tsc() - start);
}

/* brk itself: the C library's makes no call for memory that it counts as its own. */
static char *heap_end(char *wanted)
{
	return (char *)syscall(SYS_brk, wanted);
}

static double brk_pair(size_t bytes)
{
	char *end = heap_end(NULL);
	uint64_t start = tsc();
	must(heap_end(end + bytes) == end + bytes, "brk");
	touch(end, bytes);
	must(heap_end(end) == end, "brk");
	return (double)(tsc() - start);
}

int main(int argc, char **argv)
{
	enum { SIZES = sizeof sizes / sizeof sizes[0], KINDS = 3 };
	static const char *const kinds[KINDS] = { "map", "map_touch", "brk" };
	size_t rounds = number(argc, argv, 1, 50);
	double *ticks = calloc(rounds, sizeof *ticks), found[KINDS][SIZES];

	check(ticks != NULL && rounds > 0, "usage: mappings [ROUNDS]");
	for (int kind = 0; kind < KINDS; kind++)
		for (int size = 0; size < SIZES; size++) {
			size_t bytes = sizes[size].bytes;
			for (size_t i = 0; i < rounds; i++)
				ticks[i] = kind == 2 ? brk_pair(bytes) : map_pair(bytes, kind);
			found[kind][size] = median(ticks, rounds);
		}
	for (int kind = 0; kind < KINDS; kind++)
		for (int size = 0; size < SIZES; size++) {
			char name[32];
			snprintf(name, sizeof name, "%s_%s", kinds[kind], sizes[size].name);
			report(name, found[kind][size]);
		}
	return 0;
}
