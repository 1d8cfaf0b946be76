// An interval timer whose signal waits, or was ignored, stands still: nothing is left of it, and the next SIGALRM that is taken
// has it go on. Once it went on expiring, which interrupted its core at each of its intervals.
#include "../common/check.h"
#include <sys/time.h>

enum { INTERVAL_S = 100 };

static volatile sig_atomic_t calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}

static void expires_soon(void)
{
    struct itimerval soon = {.it_value = {0, 1000}, .it_interval = {INTERVAL_S, 0}};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
}

static void await_pending(void)
{
    sigset_t pending;
    do
        need(sigpending(&pending) == 0, "sigpending");
    while (!sigismember(&pending, SIGALRM));
}

static struct itimerval now(void)
{
    struct itimerval now;
    need(getitimer(ITIMER_REAL, &now) == 0, "getitimer");
    return now;
}
static int is_zero(struct timeval time) { return time.tv_sec == 0 && time.tv_usec == 0; }
static int stands(struct itimerval timer) { return is_zero(timer.it_value) && timer.it_interval.tv_sec == INTERVAL_S; }
static int goes(struct itimerval timer) { return !is_zero(timer.it_value) && timer.it_interval.tv_sec == INTERVAL_S; }

// Less than a microsecond reads as nothing as well, before the timer expires: so it is read again when that time is over.
static void await_expired(void)
{
    do {
        while (goes(now()))
            ;
        int64_t read_ns = clock_ns(CLOCK_MONOTONIC);
        while (clock_ns(CLOCK_MONOTONIC) < read_ns + 2000)
            ;
    } while (goes(now()));
}

int main(void)
{
    sigset_t alarms;
    int signo = 0;
    struct itimerval old, stop = {0};
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    need(sigprocmask(SIG_BLOCK, &alarms, NULL) == 0, "sigprocmask");

    expires_soon();
    await_pending();
    check(stands(now()), "while its signal waits nothing is left");
    check(sigwait(&alarms, &signo) == 0 && signo == SIGALRM, "the signal is taken");
    check(goes(now()), "and the timer goes on");

    expires_soon();
    await_pending();
    check(setitimer(ITIMER_REAL, &stop, &old) == 0 && stands(old), "setitimer tells the same");
    check(sigwait(&alarms, &signo) == 0 && is_zero(now().it_value), "one that is off stays off");

    need(signal(SIGALRM, count) != SIG_ERR, "signal");
    expires_soon();
    await_pending();
    need(sigprocmask(SIG_UNBLOCK, &alarms, NULL) == 0, "sigprocmask");
    check(calls == 1 && goes(now()), "a handler takes it, too");

    need(signal(SIGALRM, SIG_IGN) != SIG_ERR, "signal");
    expires_soon();
    await_expired();
    need(signal(SIGALRM, count) != SIG_ERR, "signal");
    check(stands(now()) && calls == 1, "once ignored it stands still");
    check(kill(getpid(), SIGALRM) == 0 && calls == 2 && goes(now()), "until another SIGALRM is taken");

    expires_soon();
    need(signal(SIGALRM, SIG_IGN) != SIG_ERR, "signal");
    check(alarm(0) <= INTERVAL_S && is_zero(now().it_interval), "an alarm replaces it");
    return check_done();
}
