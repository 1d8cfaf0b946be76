// poll, epoll, eventfd and timerfd by many threads at once: each sees what it waits for, and no other's. One case per run.
#include "../common/parallel.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

static int pipes[2][2];

static void *poll_both(void *arg)
{
    struct pollfd fds[2] = {{.fd = pipes[0][0], .events = POLLIN}, {.fd = pipes[1][0], .events = POLLIN}};
    int result = poll(fds, 2, -1);
    return (void *)(intptr_t)(result == 1 && fds[(intptr_t)arg].revents == POLLIN);
}
static void polls(void)
{
    for (int i = 0; i < 2; i++)
        need(pipe(pipes[i]) == 0, "pipe");
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        threads[i] = start(poll_both, (void *)1);
    need(write(pipes[1][1], "x", 1) == 1, "write");
    for (int i = 0; i < 8; i++)
        check(joined(threads[i]) != NULL, "a thread in poll sees which pipe was written to");
    for (int i = 0; i < 2; i++)
        close(pipes[i][0]), close(pipes[i][1]);
}

static int epoll_fd, event_fd;
static void *wait_for_event(void *arg)
{
    struct epoll_event event = {0};
    uint64_t value = 0;
    int count = epoll_wait(epoll_fd, &event, 1, -1);
    *(int *)arg = count == 1 && event.data.u32 == 77 && read(event_fd, &value, sizeof value) == sizeof value && value == 5;
    return NULL;
}
static void epoll_and_eventfd(void)
{
    int right = 0;
    epoll_fd = epoll_create1(0);
    event_fd = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 77};
    pthread_t thread = start(wait_for_event, &right);
    // It may wait already: what is added then counts too.
    check(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) == 0, "an eventfd for the thread in epoll_wait");
    uint64_t value = 5;
    check(write(event_fd, &value, sizeof value) == sizeof value, "is written to");
    joined(thread);
    check(right, "the thread is told, and reads the value");
    close(epoll_fd);
    close(event_fd);
}

static void *count_events(void *arg)
{
    uint64_t value;
    for (int i = 0; i < 25; i++)
        if (read(event_fd, &value, sizeof value) != sizeof value || value != 1)
            return NULL;
    return arg;
}
static void eventfd_semaphore(void)
{
    pthread_t threads[4];
    uint64_t many = 60, rest = 40;
    event_fd = eventfd(0, EFD_SEMAPHORE);
    for (int i = 0; i < 4; i++)
        threads[i] = start(count_events, threads);
    need(write(event_fd, &many, sizeof many) == sizeof many && write(event_fd, &rest, sizeof rest) == sizeof rest, "write");
    for (int i = 0; i < 4; i++)
        check(joined(threads[i]) == threads, "a thread takes 25 of 100");
    close(event_fd);
}

static void *wait_timer(void *arg)
{
    uint64_t ticks = 0;
    return (void *)(intptr_t)(read((int)(intptr_t)arg, &ticks, sizeof ticks) == sizeof ticks && ticks >= 1);
}
static void timerfds(void)
{
    pthread_t threads[4];
    int fds[4];
    for (int i = 0; i < 4; i++) {
        struct itimerspec time = {.it_value = timespec_of((i + 1) * 5 * MS)};
        fds[i] = timerfd_create(CLOCK_MONOTONIC, 0);
        need(fds[i] >= 0 && timerfd_settime(fds[i], 0, &time, NULL) == 0, "timerfd");
        threads[i] = start(wait_timer, (void *)(intptr_t)fds[i]);
    }
    for (int i = 0; i < 4; i++) {
        check(joined(threads[i]) != NULL, "a thread waited for its timer");
        close(fds[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(polls), CASE(epoll_and_eventfd), CASE(eventfd_semaphore), CASE(timerfds),
    };
    return RUN_CASES(cases);
}
