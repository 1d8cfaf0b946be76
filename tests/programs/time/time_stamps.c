// rdtsc from user mode and clock_gettime run side by side: both only forward,
// at a ratio that does not change by more than a few per cent.
#include "../common/check.h"
#include <x86intrin.h>

static int64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

// Time stamps per nanosecond over about 50 ms. Of several readings at each end
// the tightest counts, so that a pause in between does not spoil it.
static double ratio(void)
{
    uint64_t tsc[2];
    int64_t t[2];
    for (int end = 0; end < 2; end++) {
        int64_t tightest = INT64_MAX;
        for (int i = 0; i < 50; i++) {
            int64_t before = now();
            uint64_t stamp = __rdtsc();
            int64_t after = now();
            if (after - before < tightest) {
                tightest = after - before;
                tsc[end] = stamp;
                t[end] = before + tightest / 2;
            }
        }
        if (end == 0)
            while (now() - t[0] < 50000000)
                ;
    }
    return (double)(tsc[1] - tsc[0]) / (double)(t[1] - t[0]);
}

int main(void)
{
    uint64_t last = __rdtsc(), back = 0;
    for (int i = 0; i < 1000000; i++) {
        uint64_t stamp = __rdtsc();
        back += stamp < last;
        last = stamp;
    }
    check(back == 0, "a million time stamps never run backwards");
    unsigned cpu;
    check(__rdtscp(&cpu) >= last, "rdtscp goes on from there");
    double least = 1e30, most = 0;
    for (int i = 0; i < 5; i++) {
        double r = ratio();
        least = r < least ? r : least;
        most = r > most ? r : most;
    }
    check(least > 0.1 && most < 20, "the counter runs at a plausible rate");
    check(most < least * 1.05, "which is steady against the clock");
    return check_done();
}
