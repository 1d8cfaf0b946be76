// The clocks of the vDSO never run backwards and move, the coarse one lies
// behind the fine one by less than a second; 50,000 readings of each. Two clocks
// are compared by readings of one on both sides of the other, so it does not
// matter how long a busy machine takes in between. Wall clocks may be set back
// while this runs: by their keeper once, not by the system again and again.
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
        int64_t settings;
    } clocks[] = {
        {CLOCK_MONOTONIC, "MONOTONIC", 0},
        {CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE", 0},
        {CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW", 0},
        {CLOCK_BOOTTIME, "BOOTTIME", 0},
        {CLOCK_REALTIME, "REALTIME", 1},
        {CLOCK_REALTIME_COARSE, "REALTIME_COARSE", 1},
        {CLOCK_TAI, "TAI", 1},
    };
    for (size_t c = 0; c < sizeof clocks / sizeof clocks[0]; c++) {
        int64_t first = now(clocks[c].clock), last = first, back = 0;
        for (int i = 0; i < READINGS; i++) {
            int64_t t = now(clocks[c].clock);
            back += t < last;
            last = t;
        }
        check(back <= clocks[c].settings, "%s never runs backwards", clocks[c].name);
        while (now(clocks[c].clock) == first)
            ; // a clock that stands still hangs here: the harness notices
        check(1, "%s moves", clocks[c].name);
    }
    int64_t worst = 0, ahead = 0;
    for (int i = 0; i < READINGS; i++) {
        int64_t before = now(CLOCK_MONOTONIC);
        int64_t coarse = now(CLOCK_MONOTONIC_COARSE);
        int64_t after = now(CLOCK_MONOTONIC);
        ahead += coarse > after;
        worst = before - coarse > worst ? before - coarse : worst;
    }
    check(ahead == 0, "the coarse clock is never ahead of the fine one");
    check(worst < 1000000000, "nor a second behind");
    int64_t monotonic = now(CLOCK_MONOTONIC);
    check(now(CLOCK_BOOTTIME) >= monotonic, "BOOTTIME is not behind MONOTONIC");
    check(now(CLOCK_REALTIME) > INT64_C(1700000000) * 1000000000, "REALTIME is after 2023");
    return check_done();
}
