/* Rank 0 waits until rank 1 has been there: both live at the same time, each on a core, however short they are. */
#define _GNU_SOURCE
#include <immintrin.h>

#include "ranks.h"

static atomic_int met;

int main(void)
{
	const char *rank = getenv("MARGAY_RANK");

	check(rank != NULL, "no rank on Margay");
	/* An emulator that counts instructions goes on to the other core at a pause. */
	if (rank[0] == '0') {
		while (!atomic_load(&met))
			_mm_pause();
	} else {
		while (!(living() & 1))
			_mm_pause();
		atomic_store((atomic_int *)of_rank(0, &met), 1);
	}
	return 0;
}
