// alarm and setitimer: one shot and repeating, what is left is told, a new one
// replaces the old, and signals arrive in a loop that makes no system call.
#include "../common/check.h"
#include <sys/time.h>

static volatile sig_atomic_t calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}

static void wait_for(int wanted)
{
    while (calls < wanted)
        ; // no system call: the signal must interrupt plain computing
}

int main(void)
{
    struct itimerval repeat = {.it_value = {0, 5000}, .it_interval = {0, 5000}}, old, stop = {0};
    struct sigaction action = {.sa_handler = count};
    need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");

    check(alarm(100) == 0, "no alarm was set before");
    unsigned left = alarm(0);
    check(left == 99 || left == 100, "about 100 seconds were left");
    check(alarm(0) == 0, "and now none");
    check(alarm(1) == 0, "an alarm in one second");
    wait_for(1);
    check(calls == 1, "interrupts a loop without system calls");

    calls = 0;
    check(setitimer(ITIMER_REAL, &repeat, NULL) == 0, "a timer every 5 ms");
    wait_for(20);
    check(calls >= 20, "20 signals arrived");
    check(getitimer(ITIMER_REAL, &old) == 0 && old.it_interval.tv_usec == 5000, "getitimer tells the interval");
    check(setitimer(ITIMER_REAL, &stop, &old) == 0 && old.it_interval.tv_usec == 5000 && old.it_value.tv_sec == 0,
          "setitimer tells the old one");
    check(getitimer(ITIMER_REAL, &old) == 0 && old.it_value.tv_sec == 0 && old.it_value.tv_usec == 0, "it is stopped");
    calls = 0;
    for (volatile int i = 0; i < 20000000; i++)
        ;
    check(calls == 0, "and stays silent");

    repeat.it_value.tv_sec = 1000;
    need(setitimer(ITIMER_REAL, &repeat, NULL) == 0, "setitimer");
    left = alarm(0);
    check(left == 1000 || left == 999, "alarm and setitimer are one timer");
    repeat.it_value.tv_usec = 1000000;
    check_fails(setitimer(ITIMER_REAL, &repeat, NULL), EINVAL, "a million microseconds");
    check_fails(setitimer(99, &stop, NULL), EINVAL, "an unknown timer");
    return check_done();
}
