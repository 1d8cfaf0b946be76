// For gdb sessions: a function that is called, a variable that changes, a signal, a loop that gdb ends.
//
//   steps [loop|threads|waits|blocks|zero|becomes|interval|timer]

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int counter;
volatile int go_on = 1;
static pthread_barrier_t ready;

__attribute__((noinline)) int twice(int n)
{
    counter += n;
    return 2 * n;
}

static void handler(int signo)
{
    counter += 1000 * (signo == SIGUSR1);
}

__attribute__((noinline)) static void loops(void)
{
    while (go_on)
        ;
}

static void *body(void *arg)
{
    pthread_barrier_wait(&ready);
    loops();
    return arg;
}

static void ends_loop(int signo)
{
    go_on = signo != SIGALRM;
}

// Loops until a handler is called by one of many signals of a timer.
static void timed(int posix)
{
    struct itimerval interval = {{0, 1000}, {0, 1000}};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    timer_t timer;

    signal(SIGALRM, ends_loop);
    if (posix && timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0)
        timer_settime(timer, 0, &often, NULL);
    if (!posix)
        setitimer(ITIMER_REAL, &interval, NULL);
    loops();
}

__attribute__((noinline)) static void becomes(void)
{
    execv("/proc/self/exe", (char *[]){"steps", "loop", NULL});
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int sum = 0;
    pthread_t threads[3];

    if (strcmp(way, "becomes") == 0)
        becomes();
    signal(SIGUSR1, handler);
    for (int i = 1; i < 4; i++)
        sum += twice(i);
    raise(SIGUSR1);
    printf("sum %d counter %d\n", sum, counter);
    fflush(stdout);
    if (strcmp(way, "threads") == 0) {
        pthread_barrier_init(&ready, NULL, 4);
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, body, NULL);
        body(NULL);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    if (strcmp(way, "waits") == 0)
        poll(NULL, 0, 100);
    if (strcmp(way, "blocks") == 0) {
        sigset_t now;
        sigprocmask(SIG_BLOCK, NULL, &now);
        printf("blocked %d\n", sigismember(&now, SIGUSR1));
    }
    if (strcmp(way, "interval") == 0 || strcmp(way, "timer") == 0)
        timed(way[0] == 't');
    if (strcmp(way, "loop") == 0)
        loops();
    return strcmp(way, "zero") == 0 ? 0 : 3;
}
