// sigsuspend: lets a pending signal in, returns EINTR after its handler, and
// puts the old mask back; pause and timers that wake it.
#include "../common/check.h"
#include <sys/time.h>

static volatile int calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}

int main(void)
{
    sigset_t blocked, none, now;
    struct sigaction action = {.sa_handler = count};
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGALRM);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);

    need(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0, "sigprocmask");
    raise(SIGUSR1);
    check(calls == 0, "a blocked signal waits");
    check_fails(sigsuspend(&none), EINTR, "sigsuspend lets it in");
    check(calls == 1, "its handler ran once");
    sigprocmask(SIG_SETMASK, NULL, &now);
    check(sigismember(&now, SIGUSR1) && sigismember(&now, SIGALRM) && !sigismember(&now, SIGUSR2),
          "the mask is the old one");

    for (int i = 0; i < 100; i++) {
        raise(SIGUSR1);
        sigsuspend(&none);
    }
    check(calls == 101, "100 times more");

    struct itimerval soon = {.it_value = {0, 20000}};
    calls = 0;
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    check_fails(sigsuspend(&none), EINTR, "sigsuspend sleeps until a timer's signal");
    check(calls == 1, "which was handled");

    sigprocmask(SIG_SETMASK, &none, NULL);
    // An interval, so that a first signal before pause begins does no harm.
    soon.it_interval.tv_usec = 20000;
    calls = 0;
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    check_fails(pause(), EINTR, "pause sleeps until a signal");
    check(calls >= 1, "which was handled");
    memset(&soon, 0, sizeof soon);
    check(setitimer(ITIMER_REAL, &soon, NULL) == 0, "the timer stopped");
    return check_done();
}
