/* Rank 0 waits until rank 1 has been there: both live at the same time, each on a core, however short they are. */
#include <immintrin.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "bench.h"

enum { AT_MARGAY = 0x4d47 };

static atomic_int met;

int main(void)
{
	const char *rank = getenv("MARGAY_RANK");
	/* The information page (wire/src/info.rs): the set of ranks that live. */
	const uint64_t *page = (const uint64_t *)getauxval(AT_MARGAY);
	atomic_int *of_first = (atomic_int *)(UINT64_C(1) << 39 | (uintptr_t)&met);

	check(rank != NULL && page != NULL, "no rank on Margay");
	/* An emulator that counts instructions goes on to the other core at a pause. */
	if (rank[0] == '0') {
		while (!atomic_load(&met))
			_mm_pause();
	} else {
		while (!(atomic_load((const _Atomic uint64_t *)(page + 7)) & 1))
			_mm_pause();
		atomic_store(of_first, 1);
	}
	return 0;
}
