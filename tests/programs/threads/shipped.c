// Calls that wait for the outside, made by many threads at once: each waits by
// itself, is woken by what it waits for, and harms no other. One case per run.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

// ---- Many readers -----------------------------------------------------------

enum { READERS = 64 };
struct reader {
    pthread_t thread;
    int ends[2];
    atomic_int got;
};
static struct reader all_readers[READERS];

static void *read_one(void *arg)
{
    struct reader *reader = arg;
    unsigned char byte;
    reader->got = read(reader->ends[0], &byte, 1) == 1 ? byte : -2;
    return NULL;
}
// Each waits at a pipe of its own; they are written to from the last to the first.
static void readers(void)
{
    int right = 1;
    for (int i = 0; i < READERS; i++) {
        struct reader *reader = &all_readers[i];
        reader->got = -1;
        need(pipe(reader->ends) == 0, "pipe");
        reader->thread = start(read_one, reader);
    }
    for (int i = READERS - 1; i >= 0; i--) {
        unsigned char byte = (unsigned char)(i + 1);
        need(write(all_readers[i].ends[1], &byte, 1) == 1, "write");
        joined(all_readers[i].thread);
        right &= all_readers[i].got == i + 1;
        for (int k = 0; k < i; k++)
            right &= all_readers[k].got == -1;
    }
    check(right, "%d threads wait in read, each gets what was written for it", READERS);
    for (int i = 0; i < READERS; i++)
        close(all_readers[i].ends[0]), close(all_readers[i].ends[1]);
}

// All wait at one pipe; each byte goes to one of them.
static int common[2];
static atomic_int sum, readers_done;
static void *read_common(void *arg)
{
    unsigned char byte;
    while (read(common[0], &byte, 1) == 1)
        sum += byte;
    readers_done++;
    return arg;
}
static void one_pipe(void)
{
    pthread_t threads[16];
    sum = readers_done = 0;
    need(pipe(common) == 0, "pipe");
    for (int i = 0; i < 16; i++)
        threads[i] = start(read_common, NULL);
    for (int i = 1; i <= 200; i++) {
        unsigned char byte = (unsigned char)i;
        need(write(common[1], &byte, 1) == 1, "write");
    }
    close(common[1]);
    for (int i = 0; i < 16; i++)
        joined(threads[i]);
    check(sum == 20100 && readers_done == 16, "each byte was read once, and the end by all");
    close(common[0]);
}

// A token goes round through pipes.
enum { RING = 8, LAPS = 20 };
static int ring[RING][2];
static void *pass_on(void *arg)
{
    int own = (int)(intptr_t)arg;
    uint32_t token;
    while (read(ring[own][0], &token, sizeof token) == sizeof token && token < RING * LAPS) {
        token++;
        need(write(ring[(own + 1) % RING][1], &token, sizeof token) == sizeof token, "write");
    }
    // The end goes round too.
    close(ring[(own + 1) % RING][1]);
    return NULL;
}
static void pipe_ring(void)
{
    pthread_t threads[RING];
    uint32_t token = 0;
    for (int i = 0; i < RING; i++)
        need(pipe(ring[i]) == 0, "pipe");
    for (intptr_t i = 0; i < RING; i++)
        threads[i] = start(pass_on, (void *)i);
    need(write(ring[0][1], &token, sizeof token) == sizeof token, "write");
    for (int i = 0; i < RING; i++)
        joined(threads[i]);
    check(1, "a token went %d times round %d threads", LAPS, RING);
    for (int i = 0; i < RING; i++)
        close(ring[i][0]);
}

// ---- Sockets ------------------------------------------------------------------

static int listening;
static void *serve(void *arg)
{
    char byte;
    int fd = accept(listening, NULL, NULL);
    int good = fd >= 0 && read(fd, &byte, 1) == 1 && (byte++, write(fd, &byte, 1) == 1);
    close(fd);
    return good ? arg : NULL;
}
static void accepts(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    pthread_t threads[4];
    int right = 1;
    listening = socket(AF_UNIX, SOCK_STREAM, 0);
    need(bind(listening, (struct sockaddr *)&name, sizeof name) == 0 && listen(listening, 4) == 0, "a socket");
    for (int i = 0; i < 4; i++)
        threads[i] = start(serve, threads);
    for (char i = 'a'; i < 'e'; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        char byte = i;
        right &= connect(fd, (struct sockaddr *)&name, sizeof name) == 0 && write(fd, &byte, 1) == 1 &&
                 read(fd, &byte, 1) == 1 && byte == i + 1;
        close(fd);
    }
    for (int i = 0; i < 4; i++)
        right &= joined(threads[i]) == threads;
    check(right, "four threads in accept each serve one connection");
    close(listening);
    unlink("socket");
}

static int socket_ends[2];
static void *shut_down(void *arg)
{
    shutdown(socket_ends[0], SHUT_RDWR);
    return arg;
}
static void shutdown_wakes(void)
{
    char byte;
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends) == 0, "socketpair");
    pthread_t thread = start(shut_down, NULL);
    check(read(socket_ends[0], &byte, 1) == 0, "a read ends when another thread shuts the socket down");
    joined(thread);
    close(socket_ends[0]);
    close(socket_ends[1]);
}

// Closing a pipe's end does not take it from a read that is under way.
static atomic_int in_read;
static void *read_closed(void *arg)
{
    char byte = 0;
    in_read = 1;
    ssize_t count = read(common[0], &byte, 1);
    // Whether the read began before or after the close depends on who was faster.
    *(int *)arg = (count == 1 && byte == 'x') || (count == -1 && errno == EBADF);
    return NULL;
}
static void close_while_reading(void)
{
    int right = 0;
    need(pipe(common) == 0, "pipe");
    signal(SIGPIPE, SIG_IGN);
    pthread_t thread = start(read_closed, &right);
    AWAIT(in_read);
    check(close(common[0]) == 0, "a descriptor is closed while a thread reads from it");
    write(common[1], "x", 1);
    joined(thread);
    check(right, "the read goes on until there is something, or had not begun");
    close(common[1]);
}

// The reader of a pipe goes while a thread writes more than the pipe holds.
static atomic_int broken_pipes;
static void count_broken(int signo) { broken_pipes += signo == SIGPIPE; }
static void *write_much(void *arg)
{
    static char much[1 << 20];
    *(ssize_t *)arg = write(common[1], much, sizeof much);
    return NULL;
}
static void reader_leaves(void)
{
    ssize_t written = 0;
    int size, held = 0;
    broken_pipes = 0;
    need(pipe(common) == 0, "pipe");
    size = fcntl(common[1], F_GETPIPE_SZ);
    catch_signal(SIGPIPE, count_broken, 0);
    pthread_t thread = start(write_much, &written);
    AWAIT(ioctl(common[0], FIONREAD, &held) == 0 && held == size);
    close(common[0]);
    joined(thread);
    check(written == size && broken_pipes == 1, "a write that lost its reader says how much it wrote, and raises SIGPIPE");
    close(common[1]);
}

// ---- Sleeping -----------------------------------------------------------------

static void *sleep_some(void *arg)
{
    int64_t time = ((intptr_t)arg % 8 + 1) * MS, from = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 5; i++) {
        struct timespec left = timespec_of(time);
        if (nanosleep(&left, NULL) != 0)
            return NULL;
    }
    return (void *)(intptr_t)(clock_ns(CLOCK_MONOTONIC) - from >= 5 * time);
}
static void sleeps(void)
{
    pthread_t threads[32];
    int right = 1;
    for (intptr_t i = 0; i < 32; i++)
        threads[i] = start(sleep_some, (void *)i);
    for (int i = 0; i < 32; i++)
        right &= joined(threads[i]) != NULL;
    check(right, "32 threads sleep five times each, none too short");
}

// A signal ends the read of one thread; the others read on.
static void nothing(int signo) { (void)signo; }
static _Atomic pid_t reading_tid;
static void *interrupted_read(void *arg)
{
    char byte;
    reading_tid = own_tid();
    *(atomic_int *)arg = read(common[0], &byte, 1) == -1 && errno == EINTR ? 2 : 1;
    return NULL;
}
static void read_interrupted(void)
{
    atomic_int result = 0;
    struct reader *other = &all_readers[0];
    reading_tid = 0;
    other->got = -1;
    need(pipe(common) == 0 && pipe(other->ends) == 0, "pipe");
    catch_signal(SIGUSR1, nothing, 0);
    other->thread = start(read_one, other);
    pthread_t thread = start(interrupted_read, &result);
    AWAIT(reading_tid);
    AWAIT(({
        signal_thread(reading_tid, SIGUSR1);
        result != 0;
    }));
    joined(thread);
    check(result == 2 && other->got == -1, "one read is interrupted, the other is not");
    need(write(other->ends[1], "y", 1) == 1, "write");
    joined(other->thread);
    check(other->got == 'y', "and gets what is written");
    close(common[0]), close(common[1]), close(other->ends[0]), close(other->ends[1]);
}

// ---- Answers that come while a thread ends -----------------------------------

enum { ALARMS = 64, ALARM_ROUNDS = 600, ALARM_NS = 400000, ENDERS = 12, ENDS_WITHIN_NS = 40000, ALARM_LIMIT_S = 5 };
static struct alarm {
    pthread_t thread;
    int fd;
    atomic_int came;
} alarms[ALARMS];
static atomic_int no_more_alarms;
static _Atomic int64_t ends_at[ENDERS];

static void *await_alarms(void *arg)
{
    struct alarm *alarm = arg;
    uint64_t times;
    while (!no_more_alarms)
        if (read(alarm->fd, &times, sizeof times) == sizeof times)
            alarm->came++;
    return NULL;
}
static void *end_then(void *arg)
{
    while (clock_ns(CLOCK_MONOTONIC) < *(_Atomic int64_t *)arg)
        ;
    return arg;
}
static void set_alarm(struct alarm *alarm, int64_t at_ns)
{
    struct itimerspec at = {.it_value = timespec_of(at_ns)};
    need(timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &at, NULL) == 0, "timerfd_settime");
}

// On one processor 64 threads wait for the outside, one computes, and some end, one after the other, at about the time when one of the 64 has
// its answer. A core that was rung looks at 16 waiters, and then at the others, unless a thread ended just then and the next
// one did not enter the kernel: then the answer was not seen.
static void beside_ends(void)
{
    cpu_set_t all, one;
    need(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    no_more_alarms = 0;
    for (int i = 0; i < ALARMS; i++) {
        alarms[i].fd = timerfd_create(CLOCK_MONOTONIC, 0);
        alarms[i].thread = start(await_alarms, &alarms[i]);
    }
    uint32_t random = 1;
    for (int round = 0; round < ALARM_ROUNDS; round++) {
        random = random * 1664525 + 1013904223;
        struct alarm *alarm = &alarms[(random >> 8) % ALARMS];
        int before = alarm->came;
        int64_t at = clock_ns(CLOCK_MONOTONIC) + ALARM_NS;
        set_alarm(alarm, at);
        for (int i = 0; i < ENDERS; i++) {
            at += (random >> 4) % ENDS_WITHIN_NS;
            ends_at[i] = at;
            pthread_detach(start(end_then, &ends_at[i]));
        }
        sched_yield();
        // No system call: the core is this thread's until another is woken.
        while (alarm->came == before)
            need(clock_ns(CLOCK_MONOTONIC) < at + ALARM_LIMIT_S * NS_PER_S, "an answer was not seen");
    }
    no_more_alarms = 1;
    for (int i = 0; i < ALARMS; i++) {
        set_alarm(&alarms[i], 1);
        joined(alarms[i].thread);
        close(alarms[i].fd);
    }
    need(sched_setaffinity(0, sizeof all, &all) == 0, "sched_setaffinity");
    check(1, "each answer is seen, whoever ends meanwhile");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(readers), CASE(one_pipe), CASE(pipe_ring), CASE(accepts), CASE(shutdown_wakes), CASE(close_while_reading),
        CASE(sleeps), CASE(read_interrupted), CASE(reader_leaves), CASE(beside_ends),
    };
    return RUN_CASES(cases);
}
