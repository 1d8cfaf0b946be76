// A timer that expires just when the program begins to wait for its signal ends the wait. Once the kernel let interrupts in
// between looking for signals and waiting, and a signal that came there was noticed by the next interrupt only.
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
    enum { ROUNDS = 3000, MOST_US = 150 };
    sigset_t blocked, none;
    struct sigaction action = {.sa_handler = count};
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    need(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0, "sigprocmask");
    int interrupted = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct itimerval soon = {.it_value = {0, 1 + i % MOST_US}};
        need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
        interrupted += sigsuspend(&none) == -1 && errno == EINTR;
    }
    check(interrupted == ROUNDS && calls == ROUNDS, "each wait ended by its timer's signal");
    return check_done();
}
