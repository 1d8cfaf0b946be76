// A child with a descriptor (CLONE_PIDFD) by clone and clone3: what it tells, and what is refused before there is a child.
//
// Regressions: at no address there was a child without a descriptor; clone's odd numbers of signals were refused; clone3 took one
// place for two numbers, and minded a cgroup that it was not asked for.
#include "../common/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { NO_SIGNAL = 65 };
static const uint64_t clear_handlers = UINT64_C(1) << 32;

// struct clone_args (uapi/linux/sched.h).
struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, tls, set_tid, set_tid_count, cgroup;
};

static int lowest_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static pid_t ended(long pid)
{
    if (pid == 0)
        syscall(SYS_exit_group, 7);
    return (pid_t)pid;
}

static pid_t by_clone(uint64_t flags, void *pidfd) { return ended(syscall(SYS_clone, flags, 0, pidfd, 0, 0)); }
static pid_t by_clone3(struct arguments args) { return ended(syscall(SYS_clone3, &args, sizeof args)); }

static void is_told(pid_t pid, const int *fd, const char *what)
{
    struct pollfd ends = {*fd, POLLIN, 0};
    int status = 0;
    check(pid > 0 && poll(&ends, 1, 20000) == 1, "%s: its descriptor tells that it has ended", what);
    check(waitpid(pid, &status, __WALL) == pid && WEXITSTATUS(status) == 7, "and its status is there");
    close(*fd);
}

// Linux tells by the descriptor what it tells every user, also of a child that has been waited for.
static void informs(void)
{
    uint32_t info[16] = {1 << 3}; // struct pidfd_info: what is wanted (PIDFD_INFO_EXIT), at 16 bytes ids, at 60 how it ended
    int fd = -1, status, is_new;
    unsigned long get = _IOWR(0xff, 11, char[64]);
    pid_t pid = by_clone(CLONE_PIDFD | SIGCHLD, &fd);
    need(pid > 0 && waitpid(pid, &status, 0) == pid, "a child");
    is_new = ioctl(fd, get, info) == 0 || errno == ESRCH;
    check(is_new ? !(info[0] & 1 << 3) || (int)info[15] == status : errno == ENOTTY, "how it ended, where Linux says so");
    check_fails(ioctl(fd, get, NULL), is_new ? EINVAL : ENOTTY, "nowhere to tell it");
    close(fd);
}

static volatile sig_atomic_t taken;
static void take(int signo) { taken = signo; }

// Regression: a directory of a process in /proc, which names it to pidfd_send_signal as well, was no descriptor (EBADF).
static void signals_by_directories(void)
{
    int own = open("/proc/self", O_DIRECTORY), file = open("/proc/self/status", O_RDONLY), thread, init;
    thread = open("/proc/thread-self", O_DIRECTORY);
    init = open("/proc/1", O_DIRECTORY);
    signal(SIGUSR1, take);
    check(syscall(SYS_pidfd_send_signal, own, SIGUSR1, NULL, 0) == 0 && taken == SIGUSR1, "to itself by a directory");
    check_fails(syscall(SYS_pidfd_send_signal, file, SIGUSR1, NULL, 0), EBADF, "by a file in it");
    check_fails(syscall(SYS_pidfd_send_signal, thread, SIGUSR1, NULL, 0), EBADF, "by a thread's");
    check_fails(syscall(SYS_pidfd_send_signal, own, 65, NULL, 0), EINVAL, "no signal");
    check(syscall(SYS_pidfd_send_signal, init, 0, NULL, 0) == 0 || errno == EPERM, "another process's directory is one");
    close(own), close(file), close(thread), close(init);
}

int main(void)
{
    int fd = -1, lowest = lowest_descriptor();
    static const char constant[8] = "const";
    is_told(by_clone(CLONE_PIDFD | SIGCHLD, &fd), &fd, "clone");
    is_told(by_clone(CLONE_PIDFD | NO_SIGNAL, &fd), &fd, "clone, with the number of no signal");
    is_told(by_clone3((struct arguments){.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&fd, .cgroup = 5}), &fd, "clone3");
    check_fails(by_clone(CLONE_PIDFD | SIGCHLD, NULL), EFAULT, "nowhere");
    check_fails(by_clone(CLONE_PIDFD | SIGCHLD, (void *)constant), EFAULT, "in read-only memory");
    check_fails(by_clone(CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, &fd), EINVAL, "clone, with the thread's number");
    struct arguments args = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .pidfd = (uintptr_t)&fd, .parent_tid = (uintptr_t)&fd};
    check_fails(by_clone3(args), EINVAL, "clone3, at the thread's number's place");
    args = (struct arguments){.flags = CLONE_SIGHAND | CLONE_VM | CLONE_VFORK | clear_handlers};
    check_fails(by_clone3(args), EINVAL, "clone3, handlers that are shared and cleared");
    check_fails(waitpid(-1, NULL, __WALL), ECHILD, "no child is left");
    informs();
    signals_by_directories();
    check(lowest_descriptor() == lowest, "and no descriptor");
    return check_done();
}
