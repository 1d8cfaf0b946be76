// nanosleep and clock_nanosleep sleep at least as long as requested; absolute times,
// times in the past, and the refusals. How much longer depends on the machine: a
// sleep without an end is noticed by the harness, one that is too long by
// tests/unseen, where instructions are the clock.
#include "../common/check.h"
#include <time.h>

static int64_t ns(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }
static struct timespec spec(int64_t n) { return (struct timespec){n / 1000000000, n % 1000000000}; }
static int64_t now(clockid_t clock)
{
    struct timespec t;
    need(clock_gettime(clock, &t) == 0, "clock_gettime");
    return ns(t);
}

int main(void)
{
    static const int64_t lengths_ns[] = {1, 1000, 50000, 1000000, 20000000, 150000000};
    for (int i = 0; i < 6; i++) {
        struct timespec t = spec(lengths_ns[i]), left = {7, 7};
        int64_t start = now(CLOCK_MONOTONIC);
        int result = nanosleep(&t, &left);
        int64_t slept = now(CLOCK_MONOTONIC) - start;
        check(result == 0 && slept >= lengths_ns[i], "nanosleep of %lld ns is not short", (long long)lengths_ns[i]);
        check(left.tv_sec == 7 && left.tv_nsec == 7, "and leaves the remainder alone");
    }
    for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
        const char *name = clock == CLOCK_MONOTONIC ? "MONOTONIC" : "REALTIME";
        int64_t until = now(clock) + 30000000;
        struct timespec t = spec(until), past = spec(until - INT64_C(100000000000)), zero = {0, 0};
        check(clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL) == 0 && now(clock) >= until, "%s: until a time", name);
        check(clock_nanosleep(clock, TIMER_ABSTIME, &past, NULL) == 0, "%s: until a time that is past", name);
        check(clock_nanosleep(clock, 0, &zero, NULL) == 0, "%s: for no time", name);
    }
    struct timespec bad = {0, 1000000000}, negative = {-1, 0}, fine = {0, 1};
    check_fails(nanosleep(&bad, NULL), EINVAL, "a billion nanoseconds");
    check_fails(nanosleep(&negative, NULL), EINVAL, "a negative time");
    check(clock_nanosleep(99, 0, &fine, NULL) == EINVAL, "clock 99");
    check(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL) == EINVAL, "clock_nanosleep checks too");
    check_fails(nanosleep((struct timespec *)8, NULL), EFAULT, "a bad pointer");
    int64_t start = now(CLOCK_MONOTONIC);
    for (int i = 0; i < 50; i++)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    check(now(CLOCK_MONOTONIC) - start >= 5000000, "50 sleeps of 100 us take at least 5 ms");
    check(usleep(1000) == 0 && sleep(0) == 0, "usleep and sleep(0)");
    return check_done();
}
