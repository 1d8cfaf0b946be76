// Signals that are read from a descriptor (signalfd): what it says of each, beside other descriptors in epoll, poll and select, by
// duplicates, in order, with and without waiting; what sigpending, sigtimedwait, sigaction and an opened mask make of them; errors.
//
// Regression: ENOSYS.
#include "../common/check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>

static volatile sig_atomic_t caught, caught_code;
static void on_signal(int signo, siginfo_t *info, void *context)
{
    (void)context;
    caught = signo;
    caught_code = info->si_code;
}

static sigset_t of(int a, int b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, a);
    if (b)
        sigaddset(&set, b);
    return set;
}

static int is_ready(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1 && one.revents == POLLIN;
}

static struct signalfd_siginfo next(int fd)
{
    struct signalfd_siginfo info;
    memset(&info, 0xff, sizeof info);
    ssize_t got = read(fd, &info, sizeof info);
    if (got != sizeof info)
        info.ssi_signo = 0;
    return info;
}

static void what_is_read(int fd)
{
    struct signalfd_siginfo info;
    check_fails(read(fd, &info, sizeof info), EAGAIN, "nothing is there");
    need(kill(getpid(), SIGUSR1) == 0, "kill");
    check(is_ready(fd), "poll says at once what kill has sent");
    info = next(fd);
    check(info.ssi_signo == SIGUSR1 && info.ssi_code == SI_USER && info.ssi_pid == (uint32_t)getpid() && info.ssi_uid == getuid(),
          "kill: its number, code and sender");
    check(!is_ready(fd), "and then it is gone");
    raise(SIGUSR2);
    info = next(fd);
    check(info.ssi_signo == SIGUSR2 && info.ssi_code == SI_TKILL && info.ssi_pid == (uint32_t)getpid(), "raise");
    union sigval value = {.sival_ptr = (void *)0x123456789abc};
    need(sigqueue(getpid(), SIGUSR1, value) == 0, "sigqueue");
    info = next(fd);
    check(info.ssi_code == SI_QUEUE && info.ssi_ptr == 0x123456789abc && info.ssi_int == 0x56789abc, "sigqueue: its value");
    need(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0, "kill");
    check(next(fd).ssi_signo == SIGUSR1 && next(fd).ssi_signo == 0, "twice sent, once there");
}

static void in_order(void)
{
    enum { TIMES = 20 };
    int low = SIGRTMIN + 1, high = SIGRTMIN + 4;
    sigset_t set = of(low, high), old;
    struct signalfd_siginfo many[2 * TIMES + 1];
    need(sigprocmask(SIG_BLOCK, &set, &old) == 0, "sigprocmask");
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    need(fd >= 0, "signalfd");
    check(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_NONBLOCK), "its flags");
    for (int i = 0; i < TIMES; i++)
        need(sigqueue(getpid(), high, (union sigval){i}) == 0 && sigqueue(getpid(), low, (union sigval){100 + i}) == 0, "sigqueue");
    ssize_t got = read(fd, many, sizeof many);
    int right = got == 2 * TIMES * (ssize_t)sizeof many[0];
    for (int i = 0; right && i < TIMES; i++)
        right = many[i].ssi_signo == (uint32_t)low && many[i].ssi_int == 100 + i && many[TIMES + i].ssi_signo == (uint32_t)high &&
                many[TIMES + i].ssi_int == i;
    check(right, "real-time signals: many at once, by number, in their order");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void beside_others(int fd)
{
    int epoll = epoll_create1(0), event = eventfd(0, 0), ends[2];
    struct epoll_event on_signals = {EPOLLIN, {.u32 = 1}}, on_event = {EPOLLIN, {.u32 = 2}}, got[4];
    need(epoll >= 0 && event >= 0 && pipe(ends) == 0, "descriptors");
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &on_signals) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, event, &on_event) == 0, "epoll_ctl");
    check(epoll_wait(epoll, got, 4, 0) == 0, "epoll: nothing");
    kill(getpid(), SIGUSR2);
    check(epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 1, "epoll: a signal");
    eventfd_write(event, 1);
    check(epoll_wait(epoll, got, 4, -1) == 2, "and another descriptor");
    check(next(fd).ssi_signo == SIGUSR2 && epoll_wait(epoll, got, 4, -1) == 1 && got[0].data.u32 == 2, "read, only that one");
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(fd, &ready);
    FD_SET(ends[0], &ready);
    kill(getpid(), SIGUSR1);
    check(select(ends[1] + 1, &ready, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &ready), "select: the signal");
    int copy = dup(fd);
    check(next(copy).ssi_signo == SIGUSR1 && !is_ready(fd), "a duplicate reads the same");
    close(copy);
    close(epoll);
    close(event);
    close(ends[0]);
    close(ends[1]);
}

// A timer of the process ends a read that waits.
static void waited_for(void)
{
    sigset_t set = of(SIGALRM, SIGUSR1), old;
    struct itimerval soon = {{0, 0}, {0, 20000}}, again = {{0, 5000}, {0, 5000}}, off = {{0, 0}, {0, 0}};
    struct itimerspec once = {{0, 0}, {0, 20000000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
    timer_t timer;
    need(sigprocmask(SIG_BLOCK, &set, &old) == 0, "sigprocmask");
    int fd = signalfd(-1, &set, 0), epoll = epoll_create1(0);
    struct epoll_event on_signals = {EPOLLIN, {.u32 = 1}}, got;
    need(fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &on_signals) == 0, "signalfd");
    setitimer(ITIMER_REAL, &soon, NULL);
    check(next(fd).ssi_signo == SIGALRM, "a read waits for a timer");
    setitimer(ITIMER_REAL, &again, NULL);
    int times = 0;
    for (int i = 0; i < 4; i++)
        times += epoll_wait(epoll, &got, 1, -1) == 1 && next(fd).ssi_signo == SIGALRM;
    check(times == 4, "and epoll for one that repeats, %d times of 4", times);
    setitimer(ITIMER_REAL, &off, NULL);
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &once, NULL) == 0, "timer_create");
    struct signalfd_siginfo info;
    do
        info = next(fd);
    while (info.ssi_signo == SIGALRM); // one more of the other may have come
    check(info.ssi_signo == SIGUSR1 && info.ssi_int == 77, "a POSIX timer, with its value");
    timer_delete(timer);
    close(fd);
    close(epoll);
    signal(SIGALRM, SIG_IGN); // one more may wait
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void otherwise_taken(int fd)
{
    sigset_t set = of(SIGUSR1, SIGUSR2), usr1 = of(SIGUSR1, 0), pending, old;
    struct timespec none = {0, 0};
    siginfo_t info;
    kill(getpid(), SIGUSR1);
    check(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2), "sigpending knows it");
    check(sigtimedwait(&set, &info, &none) == SIGUSR1 && info.si_code == SI_USER && info.si_pid == getpid(), "sigtimedwait takes it");
    check(!is_ready(fd), "from the descriptor, too");
    check_fails(sigtimedwait(&set, &info, &none), EAGAIN, "there is no other");
    kill(getpid(), SIGUSR2);
    check(next(fd).ssi_signo == SIGUSR2, "what comes afterwards is read again");

    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    kill(getpid(), SIGUSR1);
    check(caught == 0, "a handler does not run while it is blocked");
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
    check(caught == SIGUSR1 && caught_code == SI_USER && !is_ready(fd), "it runs when the mask is opened, before the next statement");
    caught = 0;
    raise(SIGUSR1);
    check(caught == SIGUSR1, "and for what comes then");
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    raise(SIGUSR1);
    check(next(fd).ssi_signo == SIGUSR1 && next(fd).ssi_signo == 0, "blocked again, it is read again");

    caught = 0;
    kill(getpid(), SIGUSR2);
    sigset_t all_but;
    sigfillset(&all_but);
    sigdelset(&all_but, SIGUSR2);
    check_fails(sigsuspend(&all_but), EINTR, "sigsuspend");
    check(caught == SIGUSR2, "and its handler");
    caught = 0;
    raise(SIGUSR2);
    struct pollfd nothing = {-1, 0, 0};
    check_fails(ppoll(&nothing, 1, NULL, &all_but), EINTR, "ppoll");
    check(caught == SIGUSR2, "and its handler, for one that was raised");

    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    sigaction(SIGUSR1, &ignore, NULL);
    check(next(fd).ssi_signo == SIGUSR2 && next(fd).ssi_signo == 0, "what is ignored from now on is forgotten");
    raise(SIGUSR1);
    check(next(fd).ssi_signo == SIGUSR1, "what is sent then, and blocked, is not");
    sigprocmask(SIG_SETMASK, NULL, &old);
    action.sa_handler = SIG_DFL, action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
}

static void sent_before(void)
{
    sigset_t set = of(SIGUSR1, SIGCHLD), all, old;
    need(sigprocmask(SIG_BLOCK, &set, &old) == 0, "sigprocmask");
    raise(SIGUSR1);
    kill(getpid(), SIGCHLD);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    need(fd >= 0, "signalfd");
    uint32_t first = next(fd).ssi_signo, second = next(fd).ssi_signo;
    check(first + second == SIGUSR1 + SIGCHLD && next(fd).ssi_signo == 0, "what waited before there was a descriptor");
    sigset_t other = of(SIGUSR2, 0);
    need(sigprocmask(SIG_BLOCK, &other, NULL) == 0, "sigprocmask");
    check(signalfd(fd, &other, 0) == fd, "another set for the same descriptor");
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    check(next(fd).ssi_signo == SIGUSR2 && next(fd).ssi_signo == 0, "which it reads, and no other");
    sigpending(&all);
    check(sigismember(&all, SIGUSR1), "the other waits");
    check(signalfd(fd, &set, 0) == fd && next(fd).ssi_signo == SIGUSR1, "until a descriptor is for it again");
    close(fd);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    fd = signalfd(-1, &all, SFD_NONBLOCK);
    raise(SIGTERM);
    raise(SIGPIPE);
    first = next(fd).ssi_signo, second = next(fd).ssi_signo;
    check(first + second == SIGTERM + SIGPIPE, "a descriptor for all");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* More than go out at a time. */
static void many_before(void)
{
    enum { MANY = 200 };
    sigset_t set = of(SIGRTMIN + 3, 0), old;
    need(sigprocmask(SIG_BLOCK, &set, &old) == 0, "sigprocmask");
    for (int i = 0; i < MANY; i++)
        need(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){i}) == 0, "sigqueue");
    int fd = signalfd(-1, &set, SFD_NONBLOCK), in_order = 0;
    need(fd >= 0, "signalfd");
    while (in_order < MANY && (int)next(fd).ssi_int == in_order)
        in_order++;
    check(in_order == MANY, "many that waited before there was a descriptor");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void refused(int fd)
{
    sigset_t set = of(SIGUSR1, 0);
    char byte, *volatile nowhere = (char *)8;
    check_fails(signalfd(-1, &set, 1), EINVAL, "a flag that there is not");
    check_fails(signalfd(-2, &set, 0), EBADF, "no descriptor");
    check_fails(signalfd(STDOUT_FILENO, &set, 0), EINVAL, "another kind of descriptor");
    check_fails(signalfd(77, &set, 0), EBADF, "a closed one");
    check_fails(syscall(SYS_signalfd4, -1, &set, 4, 0), EINVAL, "half a set");
    check_fails(syscall(SYS_signalfd4, -1, 8, 8, 0), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_signalfd4, -1, NULL, 8, 0), EFAULT, "none");
    check_fails(read(fd, &byte, 1), EINVAL, "too short a buffer");
    check_fails(write(fd, &byte, 1), EINVAL, "write");
    long old = syscall(SYS_signalfd, -1, &set, 8);
    check(old >= 0 && close((int)old) == 0, "the call without flags");
    kill(getpid(), SIGUSR1);
    check_fails(read(fd, nowhere, sizeof(struct signalfd_siginfo)), EFAULT, "a bad buffer");
    next(fd);
}

int main(void)
{
    sigset_t set = of(SIGUSR1, SIGUSR2);
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    need(fd >= 0, "signalfd");
    what_is_read(fd);
    in_order();
    beside_others(fd);
    waited_for();
    otherwise_taken(fd);
    sent_before();
    many_before();
    refused(fd);
    return check_done();
}
