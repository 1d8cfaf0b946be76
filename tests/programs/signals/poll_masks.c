// ppoll, pselect and epoll_pwait with a mask of their own: a pending signal that it lets through ends the wait, handlers see
// the mask of the call, and the old one is back afterwards. Bad masks and timeouts are refused in Linux's order.
#include "../common/check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

static volatile int seen, blocked_inside;

static void handler(int signo)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    blocked_inside = sigismember(&now, SIGUSR2) + 2 * sigismember(&now, signo);
    seen++;
}

static int is_blocked(int signo)
{
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, signo);
}

static int epoll;
static long by_ppoll(const sigset_t *mask, const struct timespec *limit) { return ppoll(NULL, 0, limit, mask); }
static long by_pselect(const sigset_t *mask, const struct timespec *limit)
{
    return pselect(0, NULL, NULL, NULL, limit, mask);
}
static long by_epoll(const sigset_t *mask, const struct timespec *limit)
{
    struct epoll_event event;
    return epoll_pwait(epoll, &event, 1, limit ? (int)(limit->tv_sec * 1000 + limit->tv_nsec / 1000000) : -1, mask);
}

static void waits(const char *name, long (*wait)(const sigset_t *, const struct timespec *))
{
    struct timespec none = {0, 0}, soon = {0, 20000000};
    sigset_t through, all;
    sigfillset(&all);
    sigemptyset(&through);
    sigaddset(&through, SIGUSR2);

    seen = 0;
    raise(SIGUSR1);
    check(seen == 0 && wait(&all, &soon) == 0, "%s: a mask that blocks the signal: time runs out", name);
    check(seen == 0 && wait(NULL, &none) == 0 && seen == 0, "%s: no mask: still pending", name);
    check_fails(wait(&through, NULL), EINTR, name);
    check(seen == 1 && blocked_inside == 3, "%s: the handler ran once, under the call's mask: %d", name, blocked_inside);
    check(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2), "%s: and the old mask is back", name);
    check(wait(&through, &soon) == 0 && seen == 1, "%s: nothing pending: time runs out", name);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    struct timespec wrong = {0, 2000000000}, none = {0, 0};
    void *nowhere = (void *)8;
    sigset_t set;
    struct pair {
        const void *set;
        size_t bytes;
    } pair = {&set, 7}, unreadable = {nowhere, 8}, off = {NULL, 7};

    epoll = epoll_create1(0);
    need(epoll >= 0, "epoll_create1");
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    waits("ppoll", by_ppoll);
    waits("pselect", by_pselect);
    waits("epoll_pwait", by_epoll);

    check_fails(syscall(SYS_ppoll, NULL, 0, &wrong, nowhere, 7), EINVAL, "ppoll: time limit, then size");
    check_fails(syscall(SYS_ppoll, NULL, 0, nowhere, &set, 7), EFAULT, "ppoll: unreadable limit, then size");
    check_fails(syscall(SYS_ppoll, nowhere, 1, &none, &set, 7), EINVAL, "ppoll: size, then pollfds");
    check_fails(syscall(SYS_ppoll, NULL, 0, &none, nowhere, 8), EFAULT, "ppoll: unreadable mask");
    check(syscall(SYS_ppoll, NULL, 0, &none, NULL, 7) == 0, "ppoll: without a mask its size is nothing");
    check_fails(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &wrong, &pair), EINVAL, "pselect6: time limit, then size");
    check_fails(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, &pair), EINVAL, "pselect6: size");
    check_fails(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, &unreadable), EFAULT, "pselect6: unreadable mask");
    check_fails(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, nowhere), EFAULT, "pselect6: unreadable pair");
    check(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, &off) == 0, "pselect6: a pair without a mask");
    check(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, NULL) == 0, "pselect6: no pair");
    check_fails(syscall(SYS_epoll_pwait, epoll, NULL, 0, 0, &set, 7), EINVAL, "epoll_pwait: size");
    check_fails(syscall(SYS_epoll_pwait, -1, NULL, 1, 0, nowhere, 8), EFAULT, "epoll_pwait: mask, then descriptor");
    check(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2), "the mask is as it was");
    return check_done();
}
