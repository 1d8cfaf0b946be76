/* The clock page, as crate wire defines it (wire/src/clock.rs, ClockPage): words of 64 bits. */
#ifndef MARGAY_CLOCK_PAGE_H
#define MARGAY_CLOCK_PAGE_H

#include <stdint.h>

struct clock_page {
	uint64_t seq;      /* odd while being written; 0: never written */
	uint64_t tsc_base; /* TSC at the base */
	uint64_t mono_ns;  /* CLOCK_MONOTONIC at the base */
	uint64_t real_ns;  /* CLOCK_REALTIME at the base */
	uint64_t mult;     /* ns per TSC tick, times 2^shift */
	uint64_t shift;    /* 0..63 */
};

#endif
