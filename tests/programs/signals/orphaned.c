// SIGTSTP, SIGTTIN and SIGTTOU stop a process by default, but not where its process group is orphaned: who would continue it? Once a
// rank that was the leader of a session was stopped by them for ever.
#include "../common/parallel.h"

#include <sys/wait.h>

static const int stopping[] = {SIGTSTP, SIGTTIN, SIGTTOU};
enum { STOPPING = sizeof stopping / sizeof *stopping, AFTER_NS = 100000000 };

// A process group of its own, whose leader has a parent in another one of the session.
static void stops(timer_t timer, int signo)
{
    // Again and again, or one that expires before the stop would be missed.
    struct itimerspec after = {.it_value.tv_nsec = AFTER_NS, .it_interval.tv_nsec = AFTER_NS}, never = {0};
    int64_t at = clock_ns(CLOCK_MONOTONIC) + AFTER_NS;
    need(timer_settime(timer, 0, &after, NULL) == 0, "timer_settime");
    need(raise(signo) == 0, "raise");
    check(clock_ns(CLOCK_MONOTONIC) >= at, "signal %d stops until a timer continues it", signo);
    need(timer_settime(timer, 0, &never, NULL) == 0, "timer_settime");
}

// Goes into the group of a child, for the leader of a group cannot begin a session.
static void begin_session(void)
{
    int ready[2];
    char byte;
    need(pipe(ready) == 0, "pipe");
    pid_t leader = forked();
    if (leader == 0) {
        if (setpgid(0, 0) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    need(read(ready[0], &byte, 1) == 1 && setpgid(0, leader) == 0, "setpgid");
    need(setsid() == getpid() && getpgrp() == getpid(), "setsid");
    need(kill(leader, SIGKILL) == 0 && waitpid(leader, NULL, 0) == leader, "a child");
}

int main(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    need(getpgrp() == getpid() || setpgid(0, 0) == 0, "setpgid");
    for (int i = 0; i < STOPPING; i++)
        stops(timer, stopping[i]);

    begin_session(); // with a group without any other process
    for (int i = 0; i < STOPPING; i++) {
        check(raise(stopping[i]) == 0, "signal %d does not stop", stopping[i]);
        check(kill(getpid(), stopping[i]) == 0, "nor does it for the process");
        check(kill(0, stopping[i]) == 0, "nor for the group");
    }
    return check_done();
}
