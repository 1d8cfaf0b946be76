// abort: runs the handler of SIGABRT, ends the program although it returns and
// although the signal was blocked; 134 is the status.
#include "../common/check.h"

static void handler(int signo)
{
    printf("handler of signal %d, returns\n", signo);
    fflush(stdout);
}
static void at_exit(void) { puts("atexit must not run"); }

int main(void)
{
    sigset_t set;
    atexit(at_exit);
    signal(SIGABRT, handler);
    sigemptyset(&set);
    sigaddset(&set, SIGABRT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    puts("aborting");
    fflush(stdout);
    abort();
}
