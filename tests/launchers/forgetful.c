// A launcher that says it is Open MPI's, shows which signals it ignores and blocks, and starts its program once, with an empty environment.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void show_signals(void)
{
    struct sigaction now;
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("ignored ");
    for (int signo = 1; signo < 32; signo++)
        if (sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            printf("%d,", signo);
    printf(" blocked ");
    for (int signo = 1; signo < 32; signo++)
        if (sigismember(&blocked, signo) == 1)
            printf("%d,", signo);
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char *nothing[] = { NULL };
    if (argc == 2) {
        puts("mpirun (Open MPI) 4.1.4");
        return 0;
    }
    show_signals();
    while (*++argv && **argv != '/')
        ;
    execve(*argv, argv, nothing);
    return 1;
}
