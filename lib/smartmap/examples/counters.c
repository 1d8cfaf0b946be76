/*
 * One-sided counters: a histogram whose bars are spread over the ranks. Who finds a value adds to its bar, wherever that is, by
 * one atomic instruction; the rank that has the bar has no part in it.
 */
#include "job.h"

enum { BARS = 64, VALUES = 30000 };

/* Bar b is that of rank b % ranks. */
static _Atomic long bars[BARS];

int main(void)
{
    job_begin();
    unsigned long random = 12345 + (unsigned long)rank;
    for (int i = 0; i < VALUES; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        int bar = (int)(random >> 58); /* 0 to 63 */
        atomic_fetch_add_explicit(&(*OF(bar % ranks, bars))[bar], 1, memory_order_relaxed);
    }
    job_done();
    long sum = 0;
    for (int bar = 0; bar < BARS; bar++)
        sum += (*OF(bar % ranks, bars))[bar];
    return job_end("counters", sum == (long)ranks * VALUES);
}
