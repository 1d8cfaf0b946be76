// Signals to children and from them: `kills CASE`. Only what is a child of
// this program, or in a group of one, is ever signalled.
#include "../common/children.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int gate[2];
static void say(void) { need(write_all(gate[1], "r", 1), "write"); }
static void await_said(void)
{
    char byte;
    need(read(gate[0], &byte, 1) == 1, "read");
}

// A child that does `prepare`, says so, and waits for signals.
static pid_t sleeper(void (*prepare)(void))
{
    if (gate[1] == 0)
        need(pipe(gate) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        if (prepare != NULL)
            prepare();
        say();
        for (;;)
            pause();
    }
    await_said();
    return pid;
}

// ---- What ends a child ------------------------------------------------------

static void no_core(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

static void each(void)
{
    static const int deadly[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,   SIGBUS,  SIGFPE, SIGKILL,
                                 SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,   SIGXCPU, SIGXFSZ, SIGVTALRM,
                                 SIGPROF, SIGIO,   SIGPWR,  SIGSYS,  34,      64};
    static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        pid_t pid = sleeper(no_core);
        need(kill(pid, deadly[i]) == 0, "kill");
        int status = status_of(pid);
        check(WIFSIGNALED(status) && WTERMSIG(status) == deadly[i] && !WCOREDUMP(status), "signal %d ends", deadly[i]);
    }
    pid_t pid = sleeper(NULL);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        need(kill(pid, harmless[i]) == 0, "kill");
    check(waitpid(pid, NULL, WNOHANG) == 0, "others do not");
    kill(pid, SIGKILL);
    status_of(pid);
}

static void errors(void)
{
    pid_t pid = sleeper(NULL);
    check(kill(pid, 0) == 0, "signal 0 asks");
    check_fails(kill(pid, 65), EINVAL, "a number that is no signal");
    check_fails(kill(pid, -1), EINVAL, "a negative one");
    check_fails(syscall(SYS_tgkill, pid, getppid(), SIGTERM), ESRCH, "a thread that the child has not");
    check_fails(syscall(SYS_tgkill, pid, 0, SIGTERM), EINVAL, "no thread");
    kill(pid, SIGKILL);
    siginfo_t info;
    need(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0, "waitid");
    check(kill(pid, SIGTERM) == 0, "a zombie takes any");
    check(WTERMSIG(status_of(pid)) == SIGKILL, "and minds none");
    check_fails(kill(pid, SIGTERM), ESRCH, "who was waited for is gone");
    check_fails(kill(-pid, SIGTERM), ESRCH, "a group that is none");
}

static void one_thread(void)
{
    pid_t pid = sleeper(NULL);
    check(syscall(SYS_tgkill, pid, pid, SIGUSR1) == 0 && WTERMSIG(status_of(pid)) == SIGUSR1, "tgkill");
    pid = sleeper(NULL);
    check(syscall(SYS_tkill, pid, SIGUSR2) == 0 && WTERMSIG(status_of(pid)) == SIGUSR2, "tkill");
}

// ---- Masks and dispositions ------------------------------------------------

static void block_term(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
}
static void ignore_term(void) { signal(SIGTERM, SIG_IGN); }

static void blocked(void)
{
    pid_t pid = sleeper(block_term);
    kill(pid, SIGTERM);
    check(waitpid(pid, NULL, WNOHANG) == 0, "a blocked signal waits");
    kill(pid, SIGKILL);
    check(WTERMSIG(status_of(pid)) == SIGKILL, "SIGKILL does not");
}

static void ignored(void)
{
    pid_t pid = sleeper(ignore_term);
    kill(pid, SIGTERM);
    kill(pid, SIGUSR1);
    check(WTERMSIG(status_of(pid)) == SIGUSR1, "an ignored signal is lost");
}

static volatile sig_atomic_t unblocked_signal;
static void note_unblocked(int signo) { unblocked_signal = signo; }
static void pending(void)
{
    need(pipe(gate) == 0, "pipe");
    catch_signal(SIGTERM, note_unblocked, 0);
    block_term();
    pid_t pid = forked();
    if (pid == 0) {
        sigset_t none;
        char byte;
        if (read(gate[0], &byte, 1) != 1 || unblocked_signal != 0)
            _exit(1);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        _exit(unblocked_signal == SIGTERM ? 0 : 2);
    }
    kill(pid, SIGTERM);
    say();
    check(status_of(pid) == 0, "what was blocked comes when it is unblocked");
}

// ---- Values -----------------------------------------------------------------

enum { QUEUED = 20 };
static void queued(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t parent = getpid(), pid = forked();
    if (pid == 0) {
        int wrong = 0;
        for (int i = 0; i < QUEUED; i++) {
            siginfo_t info;
            wrong += sigwaitinfo(&set, &info) != SIGRTMIN || info.si_value.sival_int != i || info.si_pid != parent ||
                     info.si_code != SI_QUEUE;
        }
        _exit(wrong);
    }
    for (int i = 0; i < QUEUED; i++)
        need(sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}) == 0, "sigqueue");
    check(status_of(pid) == 0, "values for a child come in order");
}

static void queued_to_parent(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t pid = forked();
    if (pid == 0) {
        int failed = 0;
        for (int i = 0; i < QUEUED; i++)
            failed += sigqueue(getppid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) != 0;
        _exit(failed);
    }
    int wrong = 0;
    for (int i = 0; i < QUEUED; i++) {
        siginfo_t info;
        wrong += sigwaitinfo(&set, &info) != SIGRTMIN + 1 || info.si_value.sival_int != i || info.si_pid != pid;
    }
    check(wrong == 0 && status_of(pid) == 0, "and so do those for a parent");
}

// ---- Groups -----------------------------------------------------------------

// A child and its children in a group of their own: the first to signal it ends them all.
static int in_own_group(void)
{
    pid_t pids[3];
    int status, wrong = 0;
    setpgid(0, 0);
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        pids[i] = forked();
        if (pids[i] == 0) {
            signal(SIGUSR1, SIG_DFL);
            say();
            for (;;)
                pause();
        }
        await_said();
    }
    kill(0, SIGUSR1);
    for (int i = 0; i < 3; i++)
        wrong += waitpid(pids[i], &status, 0) != pids[i] || WTERMSIG(status) != SIGUSR1;
    return wrong;
}

static void own_group(void)
{
    need(pipe(gate) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0)
        _exit(in_own_group());
    check(status_of(pid) == 0, "a child signals its group");
}

static void stopped_group(void)
{
    int status;
    pid_t pid = sleeper(NULL), member = sleeper(NULL);
    need(setpgid(pid, pid) == 0 && setpgid(member, pid) == 0, "setpgid");
    need(kill(-pid, SIGSTOP) == 0, "kill");
    check(waitpid(-pid, &status, WUNTRACED) > 0 && WIFSTOPPED(status) && waitpid(-pid, &status, WUNTRACED) > 0 &&
              WIFSTOPPED(status),
          "a group stops");
    need(kill(-pid, SIGTERM) == 0, "kill");
    check(waitpid(-pid, NULL, WNOHANG) == 0, "one that is stopped does not end");
    need(kill(-pid, SIGCONT) == 0, "kill");
    check(WTERMSIG(status_of(pid)) == SIGTERM && WTERMSIG(status_of(member)) == SIGTERM, "until it goes on");
}

// ---- The end told by a descriptor, by a dying parent -------------------------

static void by_descriptor(void)
{
    pid_t pid = sleeper(NULL);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    check(fd >= 0 && poll(&poller, 1, 0) == 0, "a pidfd of one that lives");
    kill(pid, SIGKILL);
    check(poll(&poller, 1, HANG_S * 1000) == 1 && poller.revents == POLLIN, "tells of its end");
    status_of(pid);
}

static int with_grandchild(void)
{
    pid_t pid = forked();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        say();
        for (;;)
            pause();
    }
    await_said();
    return 0; // the pipe's last writer but the parent of all is the grandchild
}

static void with_parent(void)
{
    char byte;
    need(pipe(gate) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0)
        _exit(with_grandchild());
    close(gate[1]);
    check(status_of(pid) == 0 && read(gate[0], &byte, 1) == 0, "PR_SET_PDEATHSIG of a grandchild");
}

// ---- Not waited for ----------------------------------------------------------

// For `yod --stats`: a zombie, one that Linux has taken away, one that lives for a while.
static void unwaited(void)
{
    siginfo_t info;
    pid_t zombie = forked();
    if (zombie == 0) {
        prctl(PR_SET_NAME, "zombie");
        _exit(5);
    }
    need(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT) == 0, "waitid");
    signal(SIGCHLD, SIG_IGN);
    pid_t gone = forked();
    if (gone == 0)
        _exit(6);
    AWAIT(kill(gone, 0) != 0);
    signal(SIGCHLD, SIG_DFL);
    int held[2];
    need(pipe(gate) == 0 && pipe(held) == 0, "pipe");
    if (forked() == 0) {
        char byte;
        prctl(PR_SET_NAME, "lives");
        close(held[1]);
        say();
        read(held[0], &byte, 1); // until its parent is gone
        _exit(0);
    }
    await_said();
    check(1, "children that nobody waits for");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(each), CASE(errors), CASE(one_thread), CASE(blocked), CASE(ignored), CASE(pending), CASE(queued),
        CASE(queued_to_parent), CASE(own_group), CASE(stopped_group), CASE(by_descriptor), CASE(with_parent),
        CASE(unwaited),
    };
    return RUN_CASES(cases);
}
