// With RLIMIT_SIGPENDING at 0 no real-time signal can be queued, and still a call that waits in Linux ends when a signal is
// handled. Once such a call waited for ever: what interrupts it on the host was a real-time signal.
#include "../common/check.h"
#include <sys/resource.h>
#include <sys/time.h>

static void nothing(int signo) { (void)signo; }

int main(void)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    struct rlimit none = {0, 0};
    need(setrlimit(RLIMIT_SIGPENDING, &none) == 0, "setrlimit");
    check_fails(sigqueue(getpid(), SIGRTMIN, (union sigval){0}), EAGAIN, "no signal can be queued");
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    // An interval, so that a first signal before the read begins does no harm.
    struct itimerval soon = {{0, 20000}, {0, 20000}};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    char byte;
    check_fails(read(ends[0], &byte, 1), EINTR, "a read that waits is interrupted");
    return check_done();
}
