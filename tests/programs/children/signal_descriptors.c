// A descriptor that receives signals (signalfd) beside children and threads: `signal_descriptors CASE`.
//
// Regression: ENOSYS.
#include "../common/children.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

static sigset_t of(int a, int b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, a);
    sigaddset(&set, b);
    return set;
}

static struct signalfd_siginfo next(int fd)
{
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != sizeof info)
        info.ssi_signo = 0;
    return info;
}

static int descriptor(int a, int b, int flags)
{
    sigset_t set = of(a, b);
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
    int fd = signalfd(-1, &set, flags);
    need(fd >= 0, "signalfd");
    return fd;
}

// What a supervisor does: children that end, and a request to end itself, in one loop.
static void supervises(void)
{
    int fd = descriptor(SIGCHLD, SIGTERM, SFD_CLOEXEC), epoll = epoll_create1(0), ends[2];
    struct epoll_event on_signals = {EPOLLIN, {.fd = fd}}, got;
    need(pipe(ends) == 0, "pipe");
    struct epoll_event on_pipe = {EPOLLIN, {.fd = ends[0]}};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &on_signals) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &on_pipe) == 0, "epoll_ctl");
    pid_t pid = forked();
    if (pid == 0) {
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        _exit(7);
    }
    int received = 0, ended = 0;
    while (!received || !ended) {
        need(epoll_wait(epoll, &got, 1, HANG_S * 1000) == 1, "epoll_wait");
        char byte;
        if (got.data.fd == ends[0]) {
            received = read(ends[0], &byte, 1) == 1;
            continue;
        }
        struct signalfd_siginfo info = next(fd);
        ended = 1;
        check(info.ssi_signo == SIGCHLD && info.ssi_code == CLD_EXITED && info.ssi_pid == (uint32_t)pid && info.ssi_status == 7 &&
                  info.ssi_uid == getuid(),
              "SIGCHLD says who has ended, and how");
    }
    check(status_of(pid) == 7 << 8, "it is there to be waited for");
    pid_t parent = getpid();
    pid = forked();
    if (pid == 0)
        _exit(kill(parent, SIGTERM) != 0);
    int told = 0, over = 0;
    while (!told || !over) {
        struct signalfd_siginfo info = next(fd);
        over |= info.ssi_signo == SIGCHLD;
        if (info.ssi_signo == SIGTERM)
            told = check(info.ssi_pid == (uint32_t)pid && info.ssi_code == SI_USER, "SIGTERM says that the child has sent it");
        need(info.ssi_signo != 0, "read");
    }
    check(status_of(pid) == 0, "the child has ended");
}

// A child has the descriptor, and its own signals there.
static void in_children(void)
{
    int fd = descriptor(SIGUSR1, SIGUSR2, 0), ends[2];
    need(pipe(ends) == 0, "pipe");
    raise(SIGUSR2);
    pid_t pid = forked();
    if (pid == 0) {
        char byte;
        if (read(ends[0], &byte, 1) != 1)
            _exit(1);
        struct signalfd_siginfo info = next(fd);
        if (info.ssi_signo != SIGUSR1 || info.ssi_pid != (uint32_t)getppid())
            _exit(2);
        raise(SIGUSR2);
        _exit(next(fd).ssi_signo == SIGUSR2 ? 0 : 3);
    }
    need(kill(pid, SIGUSR1) == 0 && write(ends[1], "x", 1) == 1, "kill");
    check(status_of(pid) == 0, "a child reads what was sent to it, and what it has raised");
    check(next(fd).ssi_signo == SIGUSR2, "its parent, what it had raised before");
}

static int from_fd;
static _Atomic int read_signo;
static void *reads(void *unused)
{
    (void)unused;
    read_signo = (int)next(from_fd).ssi_signo;
    return NULL;
}

static _Atomic int go_on;
static void *blocks_later(void *set)
{
    sigset_t *unblocked = set;
    pthread_sigmask(SIG_UNBLOCK, unblocked, NULL);
    go_on = 1;
    AWAIT(go_on == 2);
    return NULL;
}

static volatile sig_atomic_t caught;
static void on_signal(int signo) { caught = signo; }

// A thread waits in a read while others send; a signal that some thread lets in is that thread's.
static void beside_threads(void)
{
    from_fd = descriptor(SIGUSR1, SIGUSR2, 0);
    sigset_t set = of(SIGUSR1, SIGUSR2);
    pthread_t thread;
    for (int i = 0; i < 50; i++) {
        read_signo = 0;
        need(pthread_create(&thread, NULL, reads, NULL) == 0, "pthread_create");
        if (i % 2)
            pthread_kill(thread, SIGUSR2);
        else
            kill(getpid(), SIGUSR1);
        pthread_join(thread, NULL);
        need(read_signo == (i % 2 ? SIGUSR2 : SIGUSR1), "what the thread has read");
    }
    check(1, "a thread reads what is sent to the process, and to itself");
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    need(pthread_create(&thread, NULL, blocks_later, &set) == 0, "pthread_create");
    AWAIT(go_on == 1);
    struct pollfd one = {from_fd, POLLIN, 0};
    sigset_t second = of(SIGUSR2, SIGUSR2);
    need(sigprocmask(SIG_UNBLOCK, &second, NULL) == 0 && sigprocmask(SIG_BLOCK, &second, NULL) == 0, "a mask that opens and closes");
    kill(getpid(), SIGUSR1);
    AWAIT(caught == SIGUSR1);
    check(poll(&one, 1, 0) == 0, "what a thread lets in, it takes");
    go_on = 2;
    pthread_join(thread, NULL);
    kill(getpid(), SIGUSR2);
    check(next(from_fd).ssi_signo == SIGUSR2, "once it has ended, it is read again");
}

// What waits stays when the program is replaced, and the descriptor, too.
static void replaced(void)
{
    const char *number = getenv("SIGNAL_DESCRIPTOR");
    if (number != NULL) {
        check(next(atoi(number)).ssi_signo == SIGUSR1, "the next program reads it");
        return;
    }
    char *argv[] = {"signal_descriptors", "replaced", NULL}, *envp[] = {NULL, NULL};
    char variable[40];
    snprintf(variable, sizeof variable, "SIGNAL_DESCRIPTOR=%d", descriptor(SIGUSR1, SIGUSR2, 0));
    envp[0] = variable;
    raise(SIGUSR1);
    execve("/proc/self/exe", argv, envp);
    need(0, "execve");
}

static const struct test_case cases[] = {CASE(supervises), CASE(in_children), CASE(beside_threads), CASE(replaced)};

int main(int argc, char **argv) { return RUN_CASES(cases); }
