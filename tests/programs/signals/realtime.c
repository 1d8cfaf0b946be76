// Real-time signals: they queue, each with its value, in order of their
// numbers and then of their sending; ordinary ones come once and first.
#include "../common/check.h"

static char trace[64][16];
static volatile int at;

static void note(int signo, siginfo_t *info, void *context)
{
    (void)context;
    if (signo >= SIGRTMIN)
        snprintf(trace[at++], sizeof trace[0], "R%d:%d", signo - SIGRTMIN, info->si_value.sival_int);
    else
        snprintf(trace[at++], sizeof trace[0], "%s", signo == SIGUSR1 ? "USR1" : "USR2");
}

int main(void)
{
    sigset_t all, none;
    // All handlers block everything, so that the order is that of delivery.
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    sigfillset(&all);
    sigemptyset(&none);
    const int signals[] = {SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMIN + 1, SIGRTMIN + 5};
    for (int i = 0; i < 5; i++)
        need(sigaction(signals[i], &action, NULL) == 0, "sigaction");
    sigprocmask(SIG_SETMASK, &all, NULL);
    const struct {
        int signo, value;
    } sent[] = {{SIGRTMIN + 5, 1}, {SIGRTMIN, 2},     {SIGRTMIN + 1, 3}, {SIGRTMIN, 4},
                {SIGRTMIN, 5},     {SIGRTMIN + 5, 6}, {SIGRTMIN + 1, 7}};
    for (int i = 0; i < 7; i++)
        need(sigqueue(getpid(), sent[i].signo, (union sigval){.sival_int = sent[i].value}) == 0, "sigqueue");
    raise(SIGUSR2);
    raise(SIGUSR2);
    raise(SIGUSR1);
    check(at == 0, "all wait while blocked");
    sigprocmask(SIG_SETMASK, &none, NULL);
    check(at == 9, "7 real-time signals and 2 ordinary ones arrived");
    for (int i = 0; i < at; i++)
        printf("     %s\n", trace[i]);
    check(SIGRTMAX == 64, "SIGRTMAX is 64");
    return check_done();
}
