/* What it costs to get memory and touch all of it, per 4 KiB: mmap and one
 * store in each page; munmap is not timed.
 *
 *   touch [fresh|recycled|again] [BYTES] [ROUNDS]
 *
 * fresh:    memory that was not used since the machine handed it over; so
 *           nothing is freed between the rounds.
 * recycled: the whole partition was dirtied and freed before; so all that is
 *           mapped now was used by us.
 * again:    fresh memory; the time of its first touch over that of the next.
 */
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

static char *map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void touch(char *at, size_t bytes)
{
	for (volatile char *page = at; page < at + bytes; page += PAGE_BYTES)
		*page = 1;
}

/* Dirties everything that can be had, then gives it back. */
static void use_all_memory(void)
{
	enum { MOST = 4096 };
	static struct {
		char *at;
		size_t bytes;
	} pieces[MOST];
	int count = 0;

	for (size_t bytes = (size_t)1 << 40; bytes >= PAGE_BYTES; bytes /= 2) {
		char *at;
		while (count < MOST && (at = map(bytes)) != MAP_FAILED) {
			touch(at, bytes);
			pieces[count].at = at;
			pieces[count++].bytes = bytes;
		}
	}
	while (count-- > 0)
		must(munmap(pieces[count].at, pieces[count].bytes) == 0, "munmap");
}

/* Touches memory that was never used, and then once more. */
static void touch_again(size_t bytes)
{
	char *at = map(bytes);
	must(at != MAP_FAILED, "mmap");
	uint64_t start = tsc();
	touch(at, bytes);
	uint64_t middle = tsc();
	touch(at, bytes);
	report("again", (double)(middle - start) / (double)(tsc() - middle));
}

/* Whether all but the touched bytes read as zero. */
static int is_clean(const char *at, size_t bytes)
{
	uint64_t seen = 0;
	for (size_t page = 0; page < bytes; page += PAGE_BYTES) {
		const uint64_t *word = (const uint64_t *)(at + page);
		for (int i = 1; i < PAGE_BYTES / 8; i++)
			seen |= word[i];
	}
	return seen == 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "fresh";
	int recycled = strcmp(kind, "recycled") == 0;
	size_t bytes = number(argc, argv, 2, 64 << 20);
	uint64_t rounds = number(argc, argv, 3, 7);

	if (recycled)
		use_all_memory();
	if (strcmp(kind, "again") == 0) {
		while (rounds-- > 0)
			touch_again(bytes);
		return 0;
	}
	while (rounds-- > 0) {
		uint64_t start = tsc();
		char *at = map(bytes);
		must(at != MAP_FAILED, "mmap");
		touch(at, bytes);
		uint64_t ticks = tsc() - start;
		check(is_clean(at, bytes), "memory from mmap is not zero");
		must(!recycled || munmap(at, bytes) == 0, "munmap");
		report(kind, (double)ticks / (double)(bytes / PAGE_BYTES));
	}
	return 0;
}
