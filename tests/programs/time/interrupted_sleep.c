// A signal ends a sleep: EINTR and what is left of it, which sums up; an
// absolute sleep can simply be repeated; SA_RESTART does not hide it.
//
// A machine that stalls finds a sleep and the signals meanwhile due at once:
// a sleep that is to be interrupted is tried again when it was not.
#include "../common/check.h"
#include <sys/time.h>

enum { TRIES = 50 };

static const struct timespec want = {0, 300000000};
static volatile int calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}

static int64_t ns(struct timespec t) { return t.tv_sec * NS_PER_S + t.tv_nsec; }
static int64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void every_ms(int interval_ms)
{
    struct itimerval t = {{0, interval_ms * 1000}, {0, interval_ms * 1000}};
    need(setitimer(ITIMER_REAL, &t, NULL) == 0, "setitimer");
}

// What an interrupted sleep returns.
static int interrupted(struct timespec *left)
{
    int result = 0;
    for (int i = 0; i < TRIES && result == 0; i++)
        result = nanosleep(&want, left);
    return result;
}

// Sleeps on with what is left; returns how often it was interrupted.
static int sleep_on(void)
{
    struct timespec left = want;
    int times = 0;
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        times++;
    return times;
}

// Repeats an absolute sleep; returns how often it was interrupted, -1: it failed.
static int sleep_until(int64_t end)
{
    struct timespec until = {end / NS_PER_S, end % NS_PER_S};
    int result, times = 0;
    while ((result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) == EINTR)
        times++;
    return result == 0 ? times : -1;
}

int main(void)
{
    struct sigaction action = {.sa_handler = count};
    struct timespec left;
    need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");

    every_ms(50);
    check_fails(interrupted(&left), EINTR, "nanosleep interrupted");
    check(calls >= 1 && ns(left) > 0 && ns(left) < ns(want), "something is left, less than all");
    int64_t start, end;
    int times = 0;
    for (int i = 0; i < TRIES && times < 2; i++) {
        start = now();
        times = sleep_on();
    }
    check(now() - start >= ns(want) && times >= 2, "sleeping on with what is left comes to an end");

    times = 0;
    for (int i = 0; i < TRIES && times == 0; i++) {
        end = now() + ns(want);
        times = sleep_until(end);
    }
    check(times >= 1 && now() >= end, "an absolute sleep asked again until it is over");

    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    check_fails(interrupted(NULL), EINTR, "SA_RESTART does not restart a sleep");
    every_ms(0);

    // A sleep whose rest cannot be told is over: once the next one ended where that was to end.
    every_ms(50);
    check_fails(interrupted((struct timespec *)8), EFAULT, "a bad place for what is left");
    every_ms(0);
    start = now();
    check(nanosleep(&want, NULL) == 0 && now() - start >= ns(want), "the next sleep is as long as it is to be");

    signal(SIGALRM, SIG_IGN);
    every_ms(50);
    start = now();
    check(nanosleep(&want, &left) == 0 && now() - start >= ns(want), "an ignored signal does not interrupt");
    every_ms(0);
    return check_done();
}
