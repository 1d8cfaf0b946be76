// Handlers by signal, sigaction and a change of mind: raise, kill and tgkill
// to self run them before the call returns; all of the ordinary signals.
#include "../common/check.h"
#include <sys/syscall.h>

static volatile int calls, last;

static void count(int signo)
{
    calls++;
    last = signo;
}
static void other(int signo) { last = -signo; }

int main(void)
{
    static const int all[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,   SIGFPE,
                              SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD,  SIGCONT,
                              SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,  SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF,
                              SIGWINCH, SIGIO,  SIGPWR,  SIGSYS};
    enum { COUNT = sizeof all / sizeof all[0] };
    int right = 0;
    for (int i = 0; i < COUNT; i++) {
        need(signal(all[i], count) == SIG_DFL, "signal");
        calls = 0;
        right += raise(all[i]) == 0 && calls == 1 && last == all[i];
    }
    check(right == COUNT, "raise runs the handler of each of %d signals", COUNT);
    right = 0;
    for (int i = 0; i < COUNT; i++) {
        calls = 0;
        right += kill(getpid(), all[i]) == 0 && calls == 1 && last == all[i];
    }
    check(right == COUNT, "kill of its own process too");
    calls = 0;
    check(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) == 0 && calls == 1, "tgkill of its own thread");
    check(kill(getpid(), 0) == 0 && calls == 1, "signal 0 only asks");

    struct sigaction action;
    check(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == count, "sigaction tells the handler");
    check(signal(SIGUSR1, other) == count, "signal gives the old one back");
    raise(SIGUSR1);
    check(last == -SIGUSR1, "the new one runs");
    check(signal(SIGUSR1, SIG_IGN) == other && raise(SIGUSR1) == 0 && last == -SIGUSR1, "ignored now");
    check(signal(SIGUSR1, SIG_DFL) == SIG_IGN, "and default again");

    check(signal(SIGKILL, count) == SIG_ERR && errno == EINVAL, "SIGKILL cannot be caught");
    check(signal(SIGSTOP, SIG_IGN) == SIG_ERR && errno == EINVAL, "SIGSTOP cannot be ignored");
    check(sigaction(SIGKILL, NULL, &action) == 0 && action.sa_handler == SIG_DFL, "but looked at");
    check_fails(sigaction(0, NULL, &action), EINVAL, "signal 0");
    check_fails(sigaction(65, NULL, &action), EINVAL, "signal 65");
    check_fails(kill(getpid(), 65), EINVAL, "kill with 65");
    check_fails(kill(getpid(), -1), EINVAL, "kill with -1");
    check_fails(syscall(SYS_tgkill, getpid(), -1, SIGUSR1), EINVAL, "tgkill of thread -1");

    calls = 0;
    signal(SIGUSR2, count);
    for (int i = 0; i < 10000; i++)
        raise(SIGUSR2);
    check(calls == 10000, "10,000 signals, 10,000 calls");
    return check_done();
}
