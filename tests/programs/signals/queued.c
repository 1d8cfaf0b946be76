// Another process queues 500 signals with values while they are blocked: all
// arrive in the order of sending, also where a few are taken before the rest is
// sent, and by a handler.
//
// Regression: of 500 from outside 64 arrived.
#include "../common/children.h"
#include <time.h>

enum { MANY = 500, FIRST = 10 };

static void queue_all(int from, int to)
{
    pid_t parent = getpid(), pid = forked();
    if (pid == 0) {
        int failed = 0;
        for (int i = from; i < to; i++)
            failed += sigqueue(parent, SIGRTMIN, (union sigval){.sival_int = i}) != 0;
        _exit(failed != 0);
    }
    need(status_of(pid) == 0, "a child that sends");
}

// Takes `from .. to`; how far it got in that order.
static int takes(const sigset_t *set, int from, int to)
{
    struct timespec patient = {.tv_sec = 20};
    siginfo_t info;
    int next = from;
    while (next < to && sigtimedwait(set, &info, &patient) == SIGRTMIN && info.si_value.sival_int == next && info.si_code == SI_QUEUE)
        next++;
    return next;
}

static volatile int handled, in_order = 1;

static void handler(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    in_order &= info->si_value.sival_int == handled;
    handled++;
}

int main(void)
{
    struct timespec at_once = {0};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    need(sigaction(SIGRTMIN, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &set, &before) == 0, "a handler");
    queue_all(0, MANY);
    int got = takes(&set, 0, MANY);
    check(got == MANY, "%d with their values, in order: %d", MANY, got);
    check_fails(sigtimedwait(&set, NULL, &at_once), EAGAIN, "one more");
    queue_all(0, MANY / 2);
    check(takes(&set, 0, FIRST) == FIRST, "the first %d", FIRST);
    queue_all(MANY / 2, MANY);
    got = takes(&set, FIRST, MANY);
    check(got == MANY, "and the others, after more have come: %d", got);
    queue_all(0, MANY);
    while (handled < MANY)
        sigsuspend(&before);
    check(in_order, "all are handled in order");
    return check_done();
}
