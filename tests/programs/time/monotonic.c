// All clocks of the vDSO never run backwards, the fine one moves, the coarse
// one lies behind it by at most two ticks; 50,000 readings of each.
#include "../common/check.h"
#include <time.h>

enum { READINGS = 50000 };

static int64_t now(clockid_t clock)
{
    struct timespec t;
    need(clock_gettime(clock, &t) == 0 && t.tv_nsec >= 0 && t.tv_nsec < 1000000000, "clock_gettime");
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int main(void)
{
    static const struct {
        clockid_t clock;
        const char *name;
    } clocks[] = {
        {CLOCK_MONOTONIC, "MONOTONIC"},
        {CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE"},
        {CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW"},
        {CLOCK_BOOTTIME, "BOOTTIME"},
        {CLOCK_REALTIME, "REALTIME"},
        {CLOCK_REALTIME_COARSE, "REALTIME_COARSE"},
        {CLOCK_TAI, "TAI"},
    };
    for (size_t c = 0; c < sizeof clocks / sizeof clocks[0]; c++) {
        int64_t first = now(clocks[c].clock), last = first, back = 0;
        for (int i = 0; i < READINGS; i++) {
            int64_t t = now(clocks[c].clock);
            back += t < last;
            last = t;
        }
        check(back == 0, "%s never runs backwards", clocks[c].name);
        while (now(clocks[c].clock) == first)
            ; // a clock that stands still hangs here: the harness notices
        check(1, "%s moves", clocks[c].name);
    }
    int64_t worst = 0, ahead = 0;
    for (int i = 0; i < READINGS; i++) {
        int64_t coarse = now(CLOCK_MONOTONIC_COARSE), fine = now(CLOCK_MONOTONIC);
        ahead += coarse > fine;
        worst = fine - coarse > worst ? fine - coarse : worst;
    }
    check(ahead == 0, "the coarse clock is never ahead of the fine one");
    check(worst < 1000000000, "nor a second behind");
    check(now(CLOCK_BOOTTIME) >= now(CLOCK_MONOTONIC) - 1000000000, "BOOTTIME is not behind MONOTONIC");
    check(now(CLOCK_REALTIME) > INT64_C(1700000000) * 1000000000, "REALTIME is after 2023");
    return check_done();
}
