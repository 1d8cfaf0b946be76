// kill(2) of the own process group returns after its signal was delivered. Once the signal came through the proxy whenever the proxy
// received it: a rank that stopped its group was told to end, was continued, and went on for a while.
#include "../common/check.h"

enum { ROUNDS = 500 };

static volatile int handled;

static void count(int signo)
{
    (void)signo;
    handled++;
}

static void blocked(void)
{
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
    need(kill(-getpgrp(), SIGUSR2) == 0, "kill");
    need(sigpending(&pending) == 0, "sigpending");
    check(sigismember(&pending, SIGUSR2) == 1, "one that is blocked is pending when kill returns");
}

int main(void)
{
    need(getpgrp() == getpid() || setpgid(0, 0) == 0, "setpgid"); // yod must not get these
    signal(SIGUSR1, count);
    int wrong = 0;
    for (int i = 1; i <= ROUNDS; i++) {
        need(kill(i % 2 ? 0 : -getpgrp(), SIGUSR1) == 0, "kill");
        wrong += handled != i;
    }
    check(wrong == 0, "a signal to the own group is handled before kill returns");
    blocked();
    return check_done();
}
