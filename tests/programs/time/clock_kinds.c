// clock_gettime and clock_getres: resolutions of all clocks, through the C
// library and as plain system calls that must agree, and clocks that are none.
#include "../common/check.h"
#include <sys/syscall.h>
#include <time.h>

static const struct {
    clockid_t clock;
    const char *name;
} clocks[] = {
    {CLOCK_REALTIME, "REALTIME"},
    {CLOCK_MONOTONIC, "MONOTONIC"},
    {CLOCK_PROCESS_CPUTIME_ID, "PROCESS_CPUTIME_ID"},
    {CLOCK_THREAD_CPUTIME_ID, "THREAD_CPUTIME_ID"},
    {CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW"},
    {CLOCK_BOOTTIME, "BOOTTIME"},
    {CLOCK_TAI, "TAI"},
};

static int64_t ns(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }

// The clock of a process or thread by its id (include/linux/posix-timers.h): 0 is the caller's own.
enum { VIRTUAL = 1, SCHED = 2, FD = 3, OF_THREAD = 4 };
static clockid_t clock_of(pid_t id, unsigned bits) { return (clockid_t)(~(unsigned)id << 3 | bits); }

// Once the kernel had none of these.
static void by_id(void)
{
    static const struct {
        clockid_t same;
        unsigned bits;
        const char *name;
    } rows[] = {
        {CLOCK_PROCESS_CPUTIME_ID, SCHED, "the process"},
        {CLOCK_THREAD_CPUTIME_ID, SCHED | OF_THREAD, "the thread"},
    };
    struct timespec before, inside, after;
    clockid_t clock;
    for (size_t i = 0; i < 2; i++)
        for (int own = 0; own < 2; own++) {
            clock = clock_of(own ? getpid() : 0, rows[i].bits);
            int between = clock_gettime(rows[i].same, &before) == 0 && clock_gettime(clock, &inside) == 0 &&
                          clock_gettime(rows[i].same, &after) == 0;
            check(between && ns(before) <= ns(inside) && ns(inside) <= ns(after), "the clock of %s by %s", rows[i].name,
                  own ? "its id" : "0");
            check(clock_getres(clock, &inside) == 0 && ns(inside) == 1, "its resolution is 1 ns");
        }
    check(clock_getcpuclockid(getpid(), &clock) == 0 && clock_gettime(clock, &inside) == 0, "clock_getcpuclockid");
    check(clock_gettime(clock_of(0, VIRTUAL), &inside) == 0, "the time without the kernel's");
    // Once the kernel knew no other process.
    for (unsigned bits = 0; bits < FD; bits++)
        check(clock_gettime(clock_of(getppid(), bits), &inside) == 0, "another process's time, %u", bits);
    check(ns(inside) > 0 && clock_getres(clock_of(getppid(), SCHED), &inside) == 0 && ns(inside) == 1, "its resolution");
    check(clock_getres(clock_of(getppid(), SCHED), NULL) == 0, "only looked for");
    check_fails(clock_gettime(clock_of(getppid(), SCHED), (struct timespec *)8), EFAULT, "nowhere to put it");
    check_fails(clock_gettime(clock_of(0xfffffff, SCHED), &inside), EINVAL, "a process that there is not");
    check_fails(clock_getres(clock_of(0xfffffff, SCHED), &inside), EINVAL, "nor its resolution");
    check_fails(clock_gettime(clock_of(1, SCHED | OF_THREAD), &inside), EINVAL, "another process's thread");
    check_fails(clock_getres(clock_of(1, SCHED | OF_THREAD), &inside), EINVAL, "its resolution");
    check_fails(clock_gettime(clock_of(99, FD), &inside), EINVAL, "no descriptor");
    check_fails(clock_gettime(clock_of(0, FD | OF_THREAD), &inside), EINVAL, "no such time");
    check(clock_nanosleep(clock_of(0, SCHED | OF_THREAD), 0, &inside, NULL) == EINVAL, "a sleep by the own time");
}

int main(void)
{
    struct timespec t, before, inside, after;
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        clockid_t clock = clocks[i].clock;
        check(clock_getres(clock, &t) == 0 && ns(t) == 1, "%s: a resolution of 1 ns", clocks[i].name);
        check(syscall(SYS_clock_getres, clock, &t) == 0 && ns(t) == 1, "%s: the system call says so too", clocks[i].name);
        int between = clock_gettime(clock, &before) == 0 && syscall(SYS_clock_gettime, clock, &inside) == 0 &&
                      clock_gettime(clock, &after) == 0;
        check(between && ns(before) <= ns(inside) && ns(inside) <= ns(after),
              "%s: library and system call read one clock", clocks[i].name);
    }
    check(clock_getres(CLOCK_MONOTONIC_COARSE, &t) == 0 && ns(t) >= 1 && ns(t) <= 10000000,
          "MONOTONIC_COARSE: 10 ms or finer"); /* without a tick there is nothing to be coarse by */
    check(clock_getres(CLOCK_REALTIME, NULL) == 0, "clock_getres without a place for the answer");
    by_id();
    check_fails(clock_gettime(99, &t), EINVAL, "clock 99");
    check_fails(clock_getres(99, &t), EINVAL, "resolution of clock 99");
    check_fails(clock_gettime(10, &t), EINVAL, "clock 10, which Linux removed");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 8), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 0xffff800000000000), EFAULT, "a kernel pointer");
    return check_done();
}
