// Who waits for a child, who does not, and what becomes of it: `reaps CASE`.
#include "../common/children.h"

#include <sys/prctl.h>
#include <sys/resource.h>

// ---- Arguments ---------------------------------------------------------------

static void bad_options(void)
{
    siginfo_t info;
    pid_t pid = child(1);
    await_end(pid);
    check_fails(wait4(pid, NULL, 0x100, NULL), EINVAL, "an option of wait4 that is none");
    check_fails(waitid(P_PID, (id_t)pid, &info, 0), EINVAL, "waitid for nothing");
    check_fails(waitid(P_PID, (id_t)pid, &info, WEXITED | 0x100), EINVAL, "an option of waitid that is none");
    check_fails(waitid(P_PID, 0, &info, WEXITED), EINVAL, "waitid for process 0");
    check_fails(wait4(INT_MIN, NULL, 0, NULL), ESRCH, "wait4 for no group that can be");
    check_fails(waitid(P_PID, (id_t)pid, &info, WSTOPPED), ECHILD, "one that has ended does not stop");
    check(status_of(pid) == 1 << 8, "it is still there");
}

static void no_places(void)
{
    struct rusage usage;
    pid_t pid = child(1);
    check(wait4(pid, NULL, 0, NULL) == pid, "wait4 need not tell");
    pid = child(1);
    check(waitid(P_PID, (id_t)pid, NULL, WEXITED) == 0, "nor need waitid");
    pid = child(1);
    memset(&usage, 0xff, sizeof usage);
    // Of a child that ends at once Linux may count no memory at all.
    check(syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, &usage) == 0 && usage.ru_maxrss >= 0 && usage.ru_nsignals == 0,
          "but what was used");
    check_fails(waitpid(-1, NULL, 0), ECHILD, "all were waited for");
}

static void bad_places(void)
{
    int *nowhere = (int *)8;
    pid_t pid = child(1);
    check_fails(wait4(pid, nowhere, 0, NULL), EFAULT, "a bad place for the status");
    check_fails(waitpid(pid, NULL, 0), ECHILD, "too late");
    pid = child(1);
    check_fails(syscall(SYS_waitid, P_PID, pid, nowhere, WEXITED, NULL), EFAULT, "a bad place for what happened");
    check_fails(waitpid(pid, NULL, 0), ECHILD, "too late");
}

static void nobody_yet(void)
{
    siginfo_t info;
    int status = 77;
    int gate[2];
    need(pipe(gate) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        read(gate[0], &byte, 1);
        _exit(0);
    }
    memset(&info, 0x55, sizeof info);
    check(waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0 && info.si_signo == 0, "waitid tells of nobody");
    check(wait4(-1, &status, WNOHANG, NULL) == 0 && status == 77, "wait4 of nothing");
    close(gate[1]);
    check(status_of(pid) == 0, "until it has ended");
}

// ---- Races ---------------------------------------------------------------------

enum { CHILDREN = 40 };
static atomic_int taken;
static void *take_all(void *arg)
{
    while (waitpid(-1, NULL, 0) > 0)
        taken++;
    return arg;
}

static void taken_once(void)
{
    for (int i = 0; i < CHILDREN; i++)
        child(i);
    pthread_t threads[] = {start(take_all, NULL), start(take_all, NULL), start(take_all, NULL)};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        joined(threads[i]);
    check(taken == CHILDREN, "threads that wait for all take each child once");
}

static void *poll_all(void *arg)
{
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0)
        if (info.si_pid != 0)
            taken++;
        else
            sched_yield();
    return arg;
}

static void polled_once(void)
{
    for (int i = 0; i < CHILDREN; i++)
        child(i);
    pthread_t threads[] = {start(poll_all, NULL), start(poll_all, NULL)};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        joined(threads[i]);
    check(taken == CHILDREN, "so do threads that poll");
}

static volatile sig_atomic_t reaped;
static void reap_all(int signo)
{
    (void)signo;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        reaped++;
}

static void in_handler(void)
{
    catch_signal(SIGCHLD, reap_all, SA_RESTART);
    for (int i = 0; i < CHILDREN; i++)
        child(i);
    AWAIT(reaped == CHILDREN);
    check_fails(waitpid(-1, NULL, 0), ECHILD, "a handler waits for all");
}

static void zombies(void)
{
    pid_t pids[CHILDREN];
    int failed = 0;
    for (int i = 0; i < CHILDREN; i++)
        pids[i] = child(i);
    for (int i = 0; i < CHILDREN; i++)
        await_end(pids[i]);
    for (int i = 0; i < CHILDREN; i++)
        failed += kill(pids[i], 0) != 0;
    check(failed == 0, "zombies stay");
    for (int i = CHILDREN - 1; i >= 0; i--)
        failed += status_of(pids[i]) != i << 8;
    check(failed == 0, "until they are waited for");
}

// ---- Orphans -------------------------------------------------------------------

static int ends[2];
// Its child reports, once it is an orphan, whether it has got another parent.
static int leave_orphan(void)
{
    pid_t self = getpid();
    if (forked() == 0) {
        while (getppid() == self)
            sched_yield();
        write_all(ends[1], "o", 1);
        _exit(0);
    }
    return 0;
}

static void orphans(void)
{
    char byte;
    need(pipe(ends) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0)
        _exit(leave_orphan());
    close(ends[1]);
    check(status_of(pid) == 0 && read(ends[0], &byte, 1) == 1 && byte == 'o', "an orphan gets another parent");
    check_fails(waitpid(-1, NULL, 0), ECHILD, "not its parent's");
}

// ---- Sessions and groups ---------------------------------------------------------

static int make_session(void)
{
    pid_t self = getpid();
    return setsid() != self || getsid(0) != self || getpgrp() != self || setsid() != -1 || errno != EPERM;
}

static void sessions(void)
{
    pid_t pid = forked();
    if (pid == 0)
        _exit(make_session());
    check(status_of(pid) == 0, "a child makes a session");
}

static void groups(void)
{
    char *argv[] = {"sh", "-c", "echo x; read x", NULL};
    int in[2], out[2];
    char byte;
    need(pipe(in) == 0 && pipe(out) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        close(in[1]);
        dup2(in[0], 0);
        dup2(out[1], 1);
        read(0, &byte, 1); // its group comes first
        execv("/bin/sh", argv);
        _exit(99);
    }
    check(setpgid(pid, 0) == 0 && getpgid(pid) == pid, "a parent gives its child a group");
    need(write_all(in[1], "g", 1), "write");
    need(read(out[0], &byte, 1) == 1, "read");
    check_fails(setpgid(pid, getpgrp()), EACCES, "not once it has called exec");
    check_fails(setpgid(getppid(), 0), ESRCH, "nor anybody who is no child");
    close(in[1]);
    status_of(pid);
}

// ---- How it ended --------------------------------------------------------------

static void *end_all(void *arg)
{
    _exit((int)(intptr_t)arg);
}
static int end_by_thread(void)
{
    joined(start(end_all, (void *)42));
    return 1;
}
static void *park(void *arg)
{
    for (;;)
        pause();
    return arg;
}
static int end_with_threads(void)
{
    for (int i = 0; i < 3; i++)
        start(park, NULL);
    return 43;
}

static void threads(void)
{
    pid_t pid = forked();
    if (pid == 0)
        _exit(end_by_thread());
    check(status_of(pid) == 42 << 8, "a child's thread ends it");
    pid = forked();
    if (pid == 0)
        _exit(end_with_threads());
    check(status_of(pid) == 43 << 8, "and it its threads");
}

static void faults(void)
{
    struct rlimit none = {0, 0};
    siginfo_t info;
    setrlimit(RLIMIT_CORE, &none);
    pid_t pid = forked();
    if (pid == 0) {
        *(volatile int *)8 = 1;
        _exit(0);
    }
    check(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0 && info.si_code == CLD_KILLED && info.si_status == SIGSEGV,
          "a fault");
    pid = forked();
    if (pid == 0)
        __builtin_trap();
    check(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0 && info.si_status == SIGILL, "an instruction that is none");
    pid = forked();
    if (pid == 0)
        abort();
    check(WTERMSIG(status_of(pid)) == SIGABRT, "abort");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(bad_options), CASE(no_places), CASE(bad_places), CASE(nobody_yet), CASE(taken_once), CASE(polled_once),
        CASE(in_handler), CASE(zombies), CASE(orphans), CASE(sessions), CASE(groups), CASE(threads), CASE(faults),
    };
    return RUN_CASES(cases);
}
