// siglongjmp out of handlers: the mask comes back when saved and stays blocked
// when not; 5000 faults left this way do not wear anything out.
#include "../common/check.h"

static sigjmp_buf back;
static void jump(int signo) { siglongjmp(back, signo); }

static int blocked(int signo)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, signo);
}

int main(void)
{
    sigset_t set;
    struct sigaction action = {.sa_handler = jump};
    sigaddset(&action.sa_mask, SIGUSR2);
    need(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");

    if (sigsetjmp(back, 1) == 0)
        raise(SIGUSR1);
    check(!blocked(SIGUSR1) && !blocked(SIGUSR2), "sigsetjmp(.., 1): the mask is restored");
    if (sigsetjmp(back, 0) == 0)
        raise(SIGUSR1);
    check(blocked(SIGUSR1) && blocked(SIGUSR2), "sigsetjmp(.., 0): the handler's mask stays");
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);

    volatile int count = 0;
    for (volatile int i = 0; i < 5000; i++) {
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)(uintptr_t)(i % 4096) = 1;
        else
            count++;
    }
    check(count == 5000, "5000 null pointer faults survived");

    volatile int depth = 0;
    int value = sigsetjmp(back, 1);
    if (value == 0) {
        depth = 1;
        raise(SIGUSR1);
        depth = 2;
    }
    check(value == SIGUSR1 && depth == 1, "the value jumped with is the signal");
    return check_done();
}
