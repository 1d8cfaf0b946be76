// Never ends by itself, in the way its argument names: spin (computing), calls
// (making system calls), read (a pipe without a writer), sleep, ignore (spins
// with all signals ignored and blocked), print (output without end), stop (stops
// itself, again and again).
#include "../common/check.h"
#include <time.h>

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "spin";
    int ends[2];
    char c;
    sigset_t all;
    printf("never ending: %s\n", way);
    fflush(stdout);
    if (strcmp(way, "calls") == 0)
        for (;;)
            getppid();
    if (strcmp(way, "read") == 0 && pipe(ends) == 0)
        read(ends[0], &c, 1);
    if (strcmp(way, "sleep") == 0)
        for (;;)
            nanosleep(&(struct timespec){1000000, 0}, NULL);
    if (strcmp(way, "stop") == 0)
        for (;;)
            raise(SIGSTOP);
    if (strcmp(way, "print") == 0)
        for (;;)
            puts("and on and on and on");
    if (strcmp(way, "ignore") == 0) {
        for (int signo = 1; signo < 65; signo++)
            signal(signo, SIG_IGN);
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
    }
    for (volatile uint64_t i = 0;; i++)
        ;
}
