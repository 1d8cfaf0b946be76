// sigprocmask: blocked signals wait and are told by sigpending, arrive when
// unblocked, once each; sa_mask holds within a handler; SIGKILL stays open.
#include "../common/check.h"

static char order[32];
static volatile int at;

static void note(int signo)
{
    order[at++] = signo == SIGUSR1 ? '1' : signo == SIGUSR2 ? '2' : signo == SIGTERM ? 'T' : 'h';
}

static void raise_inside(int signo)
{
    order[at++] = '(';
    raise(SIGUSR1);
    raise(SIGUSR2);
    note(signo);
    order[at++] = ')';
}

static int pending(int signo)
{
    sigset_t set;
    need(sigpending(&set) == 0, "sigpending");
    return sigismember(&set, signo);
}

static void expect(const char *wanted, const char *text)
{
    order[at] = 0;
    check(strcmp(order, wanted) == 0, "%s: %s", text, order);
    at = 0;
}

int main(void)
{
    sigset_t set, old, none;
    struct sigaction action = {.sa_handler = note};
    sigemptyset(&none);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    check(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR1), "two signals blocked");
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    raise(SIGTERM);
    raise(SIGUSR2);
    expect("2", "only the third arrives");
    check(pending(SIGUSR1) && pending(SIGTERM) && !pending(SIGUSR2), "two are pending");
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    expect("T", "one unblocked");
    sigprocmask(SIG_SETMASK, &none, &old);
    expect("1", "the other, once although raised five times");
    check(sigismember(&old, SIGUSR1) && !sigismember(&old, SIGTERM), "the old mask was right");
    check(!pending(SIGUSR1), "nothing is pending");

    sigaddset(&action.sa_mask, SIGUSR1);
    action.sa_handler = raise_inside;
    sigaction(SIGTERM, &action, NULL);
    raise(SIGTERM);
    expect("(2T)1", "sa_mask holds one back until the handler ends");

    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    sigprocmask(SIG_SETMASK, NULL, &old);
    check(!sigismember(&old, SIGKILL) && !sigismember(&old, SIGSTOP) && sigismember(&old, SIGRTMAX),
          "all but SIGKILL and SIGSTOP can be blocked");
    raise(SIGUSR2);
    signal(SIGUSR2, SIG_IGN);
    check(!pending(SIGUSR2), "ignoring a pending signal discards it");
    sigprocmask(SIG_SETMASK, &none, NULL);
    expect("", "so it never arrives");
    check_fails(sigprocmask(99, &none, NULL), EINVAL, "an unknown how");
    return check_done();
}
