/*
 * ../counters.c by plain MPI: to add to a bar is a call (MPI_Accumulate), whose end the rank that has the bar may have a part in.
 */
#include "job.h"

enum { BARS = 64, VALUES = 30000 };

static long bars[BARS];

int main(void)
{
    job_begin();
    MPI_Win window;
    MPI_Win_create(bars, sizeof bars, sizeof bars[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    const long one = 1;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    unsigned long random = 12345 + (unsigned long)rank;
    for (int i = 0; i < VALUES; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        int bar = (int)(random >> 58);
        MPI_Accumulate(&one, 1, MPI_LONG, bar % ranks, bar, 1, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_unlock_all(window);
    job_done();
    MPI_Win_free(&window);
    long own = 0, sum;
    for (int bar = rank; bar < BARS; bar += ranks)
        own += bars[bar];
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return job_end("counters", sum == (long)ranks * VALUES);
}
