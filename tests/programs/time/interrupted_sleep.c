// A signal ends a sleep: EINTR and what is left of it, which sums up; an
// absolute sleep can simply be repeated; SA_RESTART does not hide it.
#include "../common/check.h"
#include <sys/time.h>

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

int main(void)
{
    struct sigaction action = {.sa_handler = count};
    struct timespec want = {0, 300000000}, left;
    need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");

    every_ms(50);
    check_fails(nanosleep(&want, &left), EINTR, "nanosleep interrupted");
    check(calls >= 1 && ns(left) > 0 && ns(left) < 300000000, "something is left, less than all");
    int64_t start = now();
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
    check(now() - start >= 0 && calls >= 2, "sleeping on with what is left comes to an end");

    struct timespec until = {0, 0};
    int64_t end = now() + 300000000;
    until.tv_sec = end / 1000000000;
    until.tv_nsec = end % 1000000000;
    int result, interrupted = 0;
    while ((result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) == EINTR)
        interrupted++;
    check(result == 0 && interrupted >= 1 && now() >= end, "an absolute sleep asked again until it is over");

    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    check_fails(nanosleep(&want, NULL), EINTR, "SA_RESTART does not restart a sleep");
    every_ms(0);

    // A sleep whose rest cannot be told is over: once the next one ended where that was to end.
    every_ms(50);
    check_fails(nanosleep(&want, (struct timespec *)8), EFAULT, "a bad place for what is left");
    every_ms(0);
    start = now();
    check(nanosleep(&want, NULL) == 0 && now() - start >= 300000000, "the next sleep is as long as it is to be");

    signal(SIGALRM, SIG_IGN);
    every_ms(50);
    start = now();
    check(nanosleep(&want, &left) == 0 && now() - start >= 300000000, "an ignored signal does not interrupt");
    every_ms(0);
    return check_done();
}
