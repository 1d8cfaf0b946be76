// Descriptors that tell of events: epoll's ways of telling, timers, changed
// files, counters.
#include "../common/check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

static int set, ends[2];

// Waits for one event; its flags, or 0 when there is none.
static uint32_t next(int timeout_ms)
{
    struct epoll_event event = {0};
    return epoll_wait(set, &event, 1, timeout_ms) == 1 ? event.events : 0;
}

static int add(int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static int change(int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
}

static void epolls(void)
{
    char byte;
    set = epoll_create1(EPOLL_CLOEXEC);
    need(set >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "set-up");
    check(add(ends[0], EPOLLIN) == 0 && next(0) == 0, "nothing to tell");
    check_fails(add(ends[0], EPOLLIN), EEXIST, "added once");
    need(write(ends[1], "ab", 2) == 2, "write");
    check(next(-1) == EPOLLIN && next(0) == EPOLLIN, "told as long as there is something");
    check(change(ends[0], EPOLLIN | EPOLLET) == 0 && next(0) == EPOLLIN && next(0) == 0, "with EPOLLET, told once");
    need(write(ends[1], "c", 1) == 1, "write");
    check(next(-1) == EPOLLIN, "and of more");
    check(change(ends[0], EPOLLIN | EPOLLONESHOT) == 0 && next(-1) == EPOLLIN && next(0) == 0, "with EPOLLONESHOT, told once");
    need(write(ends[1], "d", 1) == 1, "write");
    check(next(0) == 0 && change(ends[0], EPOLLIN | EPOLLONESHOT) == 0 && next(0) == EPOLLIN, "until it is set again");
    for (int i = 0; i < 4; i++)
        need(read(ends[0], &byte, 1) == 1, "read");
    need(shutdown(ends[1], SHUT_WR) == 0, "shutdown");
    check(change(ends[0], EPOLLIN | EPOLLRDHUP) == 0 && next(-1) == (EPOLLIN | EPOLLRDHUP), "EPOLLRDHUP");
    int outer = epoll_create1(0), inner = set;
    set = outer;
    check(add(inner, EPOLLIN) == 0 && next(-1) == EPOLLIN, "a set within a set");
    set = inner;
    check(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL) == 0 && next(0) == 0, "removed");
    check_fails(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT, "once");
    check_fails(add(set, EPOLLIN), EINVAL, "itself");
    int file = open("plain", O_RDWR | O_CREAT, 0600);
    check_fails(add(file, EPOLLIN), EPERM, "a plain file");
    sigset_t none;
    sigemptyset(&none);
    struct epoll_event event;
    check(epoll_pwait(set, &event, 1, 0, &none) == 0, "epoll_pwait");
    check_fails(epoll_wait(set, &event, 0, 0), EINVAL, "room for no event");
    close(file);
    unlink("plain");
    close(outer);
    close(ends[0]);
    close(ends[1]);
}

static void counters(void)
{
    uint64_t value = 7;
    int fd = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    need(add(fd, EPOLLIN) == 0, "add");
    check(next(-1) == EPOLLIN && write(fd, &value, 8) == 8 && read(fd, &value, 8) == 8 && value == 10, "an eventfd adds up");
    check(next(0) == 0, "then there is nothing");
    check_fails(read(fd, &value, 8), EAGAIN, "to read");
    value = UINT64_MAX;
    check_fails(write(fd, &value, 8), EINVAL, "the largest number");
    close(fd);
}

static void timers(void)
{
    uint64_t times = 0;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec often = {{0, 2000000}, {0, 2000000}}, left, off = {0};
    struct timespec now;
    check_fails(read(fd, &times, 8), EAGAIN, "a timer that is not set");
    need(add(fd, EPOLLIN) == 0, "add");
    check(timerfd_settime(fd, 0, &often, NULL) == 0 && next(5000) == EPOLLIN && read(fd, &times, 8) == 8 && times >= 1,
          "one that expires");
    uint64_t all = times;
    while (all < 5 && next(5000) == EPOLLIN && read(fd, &times, 8) == 8)
        all += times;
    check(all >= 5, "again and again");
    check(timerfd_gettime(fd, &left) == 0 && left.it_interval.tv_nsec == 2000000 && left.it_value.tv_sec == 0, "timerfd_gettime");
    check(timerfd_settime(fd, 0, &off, &left) == 0 && left.it_interval.tv_nsec == 2000000, "is switched off");
    need(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
    struct itimerspec past = {.it_value = now};
    check(timerfd_settime(fd, TFD_TIMER_ABSTIME, &past, NULL) == 0 && next(5000) == EPOLLIN, "a time that is over");
    check_fails(timerfd_create(99, 0), EINVAL, "no such clock");
    close(fd);
}

// The next of inotify's events: its mask, and the name if there is one.
static uint32_t changed(int fd, char *name)
{
    union {
        char bytes[sizeof(struct inotify_event) + 256];
        struct inotify_event event;
    } got;
    static char waiting[4096];
    static size_t length, at;
    if (at == length) {
        struct pollfd one = {fd, POLLIN, 0};
        ssize_t bytes = poll(&one, 1, 5000) == 1 ? read(fd, waiting, sizeof waiting) : 0;
        length = bytes > 0 ? (size_t)bytes : 0;
        at = 0;
    }
    if (at == length)
        return 0;
    memcpy(&got.event, waiting + at, sizeof got.event);
    memcpy(name, got.event.len ? waiting + at + sizeof got.event : "", got.event.len ? got.event.len : 1);
    at += sizeof got.event + got.event.len;
    return got.event.mask;
}

static void files(void)
{
    char name[256];
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), file;
    need(fd >= 0 && mkdir("watched", 0700) == 0, "set-up");
    int watch = inotify_add_watch(fd, "watched", IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE);
    check(watch > 0, "a directory is watched");
    check_fails(read(fd, name, sizeof name), EAGAIN, "nothing has happened");
    check_fails(inotify_add_watch(fd, "absent", IN_CREATE), ENOENT, "one that is not there");
    file = open("watched/a", O_RDWR | O_CREAT, 0600);
    check(changed(fd, name) == IN_CREATE && strcmp(name, "a") == 0, "a file was made");
    need(write(file, "x", 1) == 1, "write");
    check(changed(fd, name) == IN_MODIFY && strcmp(name, "a") == 0, "written");
    close(file);
    check(changed(fd, name) == IN_CLOSE_WRITE, "closed");
    need(rename("watched/a", "watched/b") == 0, "rename");
    check(changed(fd, name) == IN_MOVED_FROM && strcmp(name, "a") == 0, "moved");
    check(changed(fd, name) == IN_MOVED_TO && strcmp(name, "b") == 0, "to another name");
    unlink("watched/b");
    check(changed(fd, name) == IN_DELETE && strcmp(name, "b") == 0, "removed");
    check(inotify_rm_watch(fd, watch) == 0 && changed(fd, name) == IN_IGNORED, "the watch is removed");
    check_fails(inotify_rm_watch(fd, watch), EINVAL, "once");
    rmdir("watched");
    close(fd);
}

int main(void)
{
    epolls();
    counters();
    timers();
    files();
    return check_done();
}
