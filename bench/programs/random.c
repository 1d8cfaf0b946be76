/* Random access to memory, where what matters is how many pages the TLB holds
 * at a time: updates as in the HPC Challenge's RandomAccess (GUPS), and a chain
 * in which each address is what the one before it held.
 *
 *   random [MIB] [UPDATES] [large|small]
 *
 * large: requests large pages from Linux. small: requests small ones, and changes
 * the access of one page in each 2 MiB there and back, after which no system
 * has a large page there unless it puts one together again. What was really in
 * use is reported where the system shows it; Margay does not, for its
 * /proc/self/smaps is the proxy's.
 *
 * Results are checked: updates done twice leave the table as it was, and a chain
 * leads where arithmetic says it does.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "bench.h"

enum { LARGE_BYTES = 2 << 20 };

/* The next of a sequence that runs through all 64-bit values but 0 (G. Marsaglia, "Xorshift RNGs", 2003). */
static inline uint64_t next_random(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

/* A permutation of 0..mask with one cycle: a full-period linear congruence (Hull and Dobell, 1962). */
static inline uint64_t next_of_chain(uint64_t at, uint64_t mask)
{
	return (at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) & mask;
}

static char *table_of(size_t bytes, int small)
{
	/* Aligned, so that all of it can be in large pages. */
	char *raw = mmap(NULL, bytes + LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(raw != MAP_FAILED, "mmap");
	char *at = (char *)(((uintptr_t)raw + LARGE_BYTES - 1) & ~(uintptr_t)(LARGE_BYTES - 1));
	/* A kernel without large pages refuses the advice, and what it does is reported anyway. */
	(void)madvise(at, bytes, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	memset(at, 0, bytes);
	for (size_t i = 0; small && i < bytes; i += LARGE_BYTES) {
		must(mprotect(at + i, PAGE_BYTES, PROT_READ) == 0, "mprotect");
		must(mprotect(at + i, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
	}
	return at;
}

/* Bytes in large pages of the mapping that holds `at`; -1: unknown. */
static double huge_bytes(const char *at)
{
	struct utsname name;
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	int inside = 0;
	double found = -1;

	must(uname(&name) == 0, "uname");
	while (smaps != NULL && strstr(name.release, "margay") == NULL && fgets(line, sizeof line, smaps)) {
		unsigned long start, end, kib;
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start <= (uintptr_t)at && (uintptr_t)at < end;
		else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			found = 1024.0 * (double)kib;
	}
	if (smaps != NULL)
		fclose(smaps);
	return found;
}

static void update(uint64_t *table, uint64_t mask, uint64_t updates)
{
	uint64_t x = 1;
	for (uint64_t i = 0; i < updates; i++) {
		x = next_random(x);
		table[x & mask] ^= x;
	}
}

static uint64_t chase(const uint64_t *table, uint64_t steps)
{
	uint64_t at = 0;
	for (uint64_t i = 0; i < steps; i++)
		at = table[at];
	return at;
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)number(argc, argv, 1, 128) << 20;
	uint64_t updates = number(argc, argv, 2, 1 << 20), mask = bytes / 8 - 1, wrong = 0, at = 0;
	int small = argc > 3 && strcmp(argv[3], "small") == 0;

	check(bytes >= LARGE_BYTES && (bytes & (bytes - 1)) == 0 && updates > 0,
	      "usage: random [MIB] [UPDATES] [large|small], MIB a power of two from 2 on");
	uint64_t *table = (uint64_t *)table_of(bytes, small);
	for (uint64_t i = 0; i <= mask; i++)
		table[i] = next_of_chain(i, mask);
	update(table, mask, updates);

	double start = seconds();
	uint64_t t0 = tsc();
	update(table, mask, updates);
	uint64_t t1 = tsc();
	uint64_t end = chase(table, updates);
	uint64_t t2 = tsc();
	double taken = seconds() - start;

	for (uint64_t i = 0; i <= mask; i++)
		wrong += table[i] != next_of_chain(i, mask);
	for (uint64_t i = 0; i < updates; i++)
		at = next_of_chain(at, mask);
	check(wrong == 0, "updates done twice changed the table");
	check(at == end, "the chain led elsewhere");
	report("update_ticks", (double)(t1 - t0) / (double)updates);
	report("chase_ticks", (double)(t2 - t1) / (double)updates);
	report("seconds", taken);
	double huge = huge_bytes((char *)table);
	if (huge >= 0)
		report("huge_bytes", huge);
	return 0;
}
