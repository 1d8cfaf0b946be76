// Signals that a descriptor sends (O_ASYNC, F_SETOWN, F_SETSIG) name it and
// what happened: si_fd and si_band.
#include "../common/check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

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

int main(void)
{
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    int signo = SIGRTMIN + 1, ends[2];
    need(sigaction(signo, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    check(fcntl(ends[0], F_SETOWN, getpid()) == 0, "F_SETOWN");
    check(fcntl(ends[0], F_SETFL, O_ASYNC) == 0, "O_ASYNC");
    check(fcntl(ends[0], F_SETSIG, signo) == 0, "F_SETSIG");
    send_by(ends[1], ends[0], signo);
    check(fcntl(ends[0], F_SETSIG, SIGUSR1) == 0, "a standard signal");
    send_by(ends[1], ends[0], SIGUSR1);
    return check_done();
}
