// Waiting for children: who is waited for, what is told of them, and the
// signals that come with it. `waits CASE`.
#include "../common/children.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>

// A child that ends with this status once its parent closes the gate.
static int gate[2];
static pid_t child_behind_gate(int code)
{
    char byte;
    pid_t pid = forked();
    if (pid == 0) {
        close(gate[1]);
        while (read(gate[0], &byte, 1) < 0)
            ;
        _exit(code);
    }
    return pid;
}
static void open_gate(void) { close(gate[1]); }

static void no_hang(void)
{
    int status;
    need(pipe(gate) == 0, "pipe");
    pid_t pid = child_behind_gate(3);
    check(waitpid(pid, &status, WNOHANG) == 0, "one that runs is not waited for");
    open_gate();
    await_end(pid);
    check(waitpid(-1, &status, WNOHANG) == pid && WEXITSTATUS(status) == 3, "one that has ended is");
    check_fails(waitpid(pid, &status, WNOHANG), ECHILD, "once");
}

static void whom(void)
{
    int status;
    pid_t first = child(1), second = child(2);
    await_end(first);
    await_end(second);
    check(waitpid(second, &status, 0) == second && WEXITSTATUS(status) == 2, "by number");
    check(waitpid(0, &status, 0) == first && WEXITSTATUS(status) == 1, "by group");
    pid_t third = forked();
    if (third == 0) {
        setpgid(0, 0);
        _exit(3);
    }
    await_end(third);
    check_fails(waitpid(0, &status, 0), ECHILD, "of another group there is none in one's own");
    check(waitpid(-third, &status, 0) == third, "of its own group");
    check_fails(waitpid(getppid(), &status, 0), ECHILD, "one's parent is no child");
    check_fails(waitid((idtype_t)77, 0, NULL, WEXITED), EINVAL, "by nothing known");
}

static void told(void)
{
    siginfo_t info;
    pid_t pid = child(7);
    memset(&info, 0, sizeof info);
    check(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == pid && info.si_status == 7 &&
              info.si_code == CLD_EXITED && info.si_signo == SIGCHLD,
          "waitid looks without taking");
    check(kill(pid, 0) == 0, "a zombie is there");
    check(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == pid, "and takes");
    check_fails(kill(pid, 0), ESRCH, "a zombie that was waited for is not");
    pid = forked();
    if (pid == 0)
        for (;;)
            pause();
    need(kill(pid, SIGTERM) == 0, "kill");
    check(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0 && info.si_code == CLD_KILLED && info.si_status == SIGTERM,
          "by what signal it was ended");
}

static void stopped(void)
{
    int status;
    pid_t pid = forked();
    if (pid == 0)
        for (;;)
            pause();
    need(kill(pid, SIGSTOP) == 0, "kill");
    check(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "stopped");
    need(kill(pid, SIGCONT) == 0, "kill");
    check(waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status), "continued");
    need(kill(pid, SIGKILL) == 0, "kill");
    check(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL, "killed");
}

// ---- SIGCHLD ---------------------------------------------------------------

static volatile sig_atomic_t caught, caught_pid, caught_status, caught_code, caught_by_code[CLD_CONTINUED + 1];
static void note(int signo, siginfo_t *info, void *context)
{
    (void)context;
    caught += signo == SIGCHLD;
    caught_pid = info->si_pid;
    caught_status = info->si_status;
    caught_code = info->si_code;
    if (caught_code > 0 && caught_code <= CLD_CONTINUED)
        caught_by_code[caught_code]++;
}
static void catch_children(int flags)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
    need(sigaction(SIGCHLD, &action, NULL) == 0, "sigaction");
}

// On each processor: when the signal comes to another than the one that waits, it must not return before it is there.
static void signal_first(void)
{
    enum { ROUNDS = 200, CPUS = 2 };
    cpu_set_t mine, one;
    int cpus = 0, failed = 0;
    catch_children(SA_RESTART);
    need(sched_getaffinity(0, sizeof mine, &mine) == 0, "sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus < CPUS; cpu++) {
        if (!CPU_ISSET(cpu, &mine))
            continue;
        cpus++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
        for (int i = 0; i < ROUNDS; i++) {
            int status;
            caught = 0;
            pid_t pid = child(i);
            need(waitpid(pid, &status, 0) == pid, "waitpid");
            failed += caught != 1 || caught_pid != pid || caught_status != i || caught_code != CLD_EXITED;
        }
    }
    check(failed == 0, "SIGCHLD comes before wait returns, and tells of the child");
}

static void wakes(void)
{
    sigset_t none, block;
    catch_children(0);
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, NULL);
    pid_t pid = child(0);
    check(sigsuspend(&none) == -1 && errno == EINTR && caught == 1, "SIGCHLD ends sigsuspend");
    waitpid(pid, NULL, 0);
    pid = child(4);
    siginfo_t info;
    check(sigwaitinfo(&block, &info) == SIGCHLD && info.si_pid == pid && info.si_status == 4, "and sigwaitinfo");
    waitpid(pid, NULL, 0);
}

static void ignored(void)
{
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = child(1);
    check_fails(waitpid(pid, NULL, 0), ECHILD, "with SIGCHLD ignored nobody is left to wait for");
    signal(SIGCHLD, SIG_DFL);
    pid = child(2);
    int status;
    check(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 2, "with its default there is");
    catch_children(SA_NOCLDWAIT);
    pid = child(3);
    check_fails(waitpid(pid, NULL, 0), ECHILD, "with SA_NOCLDWAIT not");
    AWAIT(caught == 1);
    check(1, "but there is a signal");
}

static void say_so(int signo)
{
    (void)signo;
    write_all(gate[1], "c", 1);
}
static pid_t child_that_says_when_it_goes_on(void)
{
    char ready;
    need(pipe(gate) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        catch_signal(SIGCONT, say_so, 0);
        say_so(0);
        for (;;)
            pause();
    }
    need(read(gate[0], &ready, 1) == 1, "read");
    return pid;
}

// wait returns as soon as a child is stopped or goes on; it sends the signals a moment later, and before it does anything else.
static void no_stops(void)
{
    int status;
    char goes_on;
    catch_children(SA_NOCLDSTOP | SA_RESTART);
    pid_t pid = child_that_says_when_it_goes_on();
    need(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid, "stop");
    need(kill(pid, SIGCONT) == 0 && read(gate[0], &goes_on, 1) == 1, "continue");
    check(caught == 0, "SA_NOCLDSTOP: no signal for a stop");
    catch_children(SA_RESTART);
    need(kill(pid, SIGSTOP) == 0, "stop");
    AWAIT(caught_by_code[CLD_STOPPED] == 1);
    need(kill(pid, SIGCONT) == 0, "continue");
    AWAIT(caught_by_code[CLD_CONTINUED] == 1);
    need(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid, "end");
    check(caught == 3 && caught_by_code[CLD_KILLED] == 1, "without it there is one for each change");
}

static void alarmed(int signo) { (void)signo; }
static void interrupted(void)
{
    need(pipe(gate) == 0, "pipe");
    pid_t pid = child_behind_gate(0);
    catch_signal(SIGALRM, alarmed, 0);
    // An interval, so that a first signal before the wait begins does no harm.
    struct itimerval soon = {{0, 20000}, {0, 20000}}, stop = {0};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    check_fails(waitpid(pid, NULL, 0), EINTR, "a signal ends wait");
    need(setitimer(ITIMER_REAL, &stop, NULL) == 0, "setitimer");
    open_gate();
    check(waitpid(pid, NULL, 0) == pid, "which can be made again");
}

// ---- From threads, by others -------------------------------------------------

static void *wait_for(void *pid)
{
    int status = -1;
    return (void *)(intptr_t)(waitpid((pid_t)(intptr_t)pid, &status, 0) > 0 ? WEXITSTATUS(status) : -1);
}

static void by_another_thread(void)
{
    need(pipe(gate) == 0, "pipe");
    pid_t pid = child_behind_gate(9);
    pthread_t waiter = start(wait_for, (void *)(intptr_t)pid);
    open_gate();
    check((intptr_t)joined(waiter) == 9, "another thread than the one that forked waits");
}

static void group_killed(void)
{
    pid_t leader = forked();
    if (leader == 0)
        for (;;)
            pause();
    need(setpgid(leader, leader) == 0, "setpgid");
    pid_t member = forked();
    if (member == 0)
        for (;;)
            pause();
    need(setpgid(member, leader) == 0 && getpgid(member) == leader, "setpgid");
    int first, second;
    check(kill(-leader, SIGUSR1) == 0 && waitpid(leader, &first, 0) == leader && waitpid(member, &second, 0) == member &&
              WTERMSIG(first) == SIGUSR1 && WTERMSIG(second) == SIGUSR1,
          "a signal for a group of children");
}

static int sent;
static void count(int signo) { sent += signo == SIGUSR1; }
static void signalled_by_child(void)
{
    int status;
    catch_signal(SIGUSR1, count, SA_RESTART);
    pid_t pid = forked();
    if (pid == 0)
        _exit(kill(getppid(), SIGUSR1));
    check(waitpid(pid, &status, 0) == pid && status == 0, "a child signals its parent");
    AWAIT(sent == 1);
    check(1, "which gets it");
}

static int64_t used_us(const struct rusage *usage)
{
    int64_t seconds = usage->ru_utime.tv_sec + usage->ru_stime.tv_sec;
    return seconds * 1000000 + usage->ru_utime.tv_usec + usage->ru_stime.tv_usec;
}

// How Linux divides time between user and system depends on where its ticks fall; the sum does not, but for rounding.
static void usage(void)
{
    enum { AT_LEAST_US = 50000, ROUNDED_US = 2 };
    struct rusage usage, all;
    int status;
    need(getrusage(RUSAGE_CHILDREN, &all) == 0, "getrusage");
    check(used_us(&all) == 0, "without children nothing is used");
    pid_t pid = forked();
    if (pid == 0) {
        while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < AT_LEAST_US * INT64_C(1000))
            ;
        _exit(0);
    }
    check(wait4(pid, &status, 0, &usage) == pid && used_us(&usage) >= AT_LEAST_US - ROUNDED_US,
          "wait4 tells what a child used");
    check(getrusage(RUSAGE_CHILDREN, &all) == 0 && used_us(&all) >= AT_LEAST_US - ROUNDED_US, "getrusage the same");
    // Two times, each rounded down.
    long ticks = AT_LEAST_US * sysconf(_SC_CLK_TCK) / 1000000 - 2;
    struct tms tms;
    check(times(&tms) != -1 && tms.tms_cutime + tms.tms_cstime >= ticks, "and times");
    check(tms.tms_utime + tms.tms_stime < clock() * sysconf(_SC_CLK_TCK) / CLOCKS_PER_SEC + 1, "which tells of itself, too");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(no_hang), CASE(whom), CASE(told), CASE(stopped), CASE(signal_first), CASE(wakes), CASE(ignored),
        CASE(no_stops), CASE(interrupted), CASE(by_another_thread), CASE(group_killed), CASE(signalled_by_child),
        CASE(usage),
    };
    return RUN_CASES(cases);
}
