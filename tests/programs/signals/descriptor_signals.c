// Signals that a descriptor sends (O_ASYNC, F_SETOWN, F_SETSIG) name it and
// what happened: si_fd and si_band. Many that are blocked queue up, all of them.
#include "../common/check.h"
#include <fcntl.h>
#include <poll.h>
#include <time.h>

static volatile siginfo_t seen;

static void keep(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    seen = *info;
}

static void send_by(int from, int to, int signo)
{
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, signo);
    sigprocmask(SIG_BLOCK, &mask, &before);
    need(write(from, "x", 1) == 1, "write");
    while (seen.si_signo != signo)
        sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    check(seen.si_code == POLL_IN, "input");
    check(seen.si_fd == to, "the descriptor");
    check((seen.si_band & POLLIN) != 0, "what happened");
}

// More than a kernel of few places would keep.
static void queue_up(int from, int to, int signo)
{
    enum { MANY = 500 };
    sigset_t mask;
    siginfo_t info;
    struct timespec at_once = {0}, patient = {.tv_sec = 20};
    char buffer[MANY];
    int taken = 0, right = 1;
    sigemptyset(&mask);
    sigaddset(&mask, signo);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    for (int i = 0; i < MANY; i++)
        need(write(from, "x", 1) == 1, "write");
    for (; taken < MANY && sigtimedwait(&mask, &info, &patient) == signo; taken++)
        right &= info.si_fd == to;
    check(taken == MANY && right, "%d signals queue up", MANY);
    check_fails(sigtimedwait(&mask, &info, &at_once), EAGAIN, "one more");
    need(read(to, buffer, sizeof buffer) == MANY, "read");
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    int signo = SIGRTMIN + 1, ends[2];
    need(sigaction(signo, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    need(pipe(ends) == 0, "pipe");
    check(fcntl(ends[0], F_SETOWN, getpid()) == 0, "F_SETOWN");
    check(fcntl(ends[0], F_SETFL, O_ASYNC) == 0, "O_ASYNC");
    check(fcntl(ends[0], F_SETSIG, signo) == 0, "F_SETSIG");
    send_by(ends[1], ends[0], signo);
    need(read(ends[0], &(char){0}, 1) == 1, "read");
    queue_up(ends[1], ends[0], signo);
    check(fcntl(ends[0], F_SETSIG, SIGUSR1) == 0, "a standard signal");
    send_by(ends[1], ends[0], SIGUSR1);
    return check_done();
}
