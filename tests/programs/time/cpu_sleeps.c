// Sleeps by clocks of processor time, in a process that uses none meanwhile, and clocks that no program sets: the order of errors.
//
// Regression: such a sleep was EOPNOTSUPP, and MONOTONIC that is set EPERM in place of EINVAL.
#include "../common/check.h"
#include <sys/syscall.h>
#include <sys/time.h>

static const struct timespec none = {0, 0}, some = {5, 0}, wrong = {0, 1000000000};

static long sleeps(clockid_t clock, int flags, const struct timespec *by, struct timespec *left)
{
    return syscall(SYS_clock_nanosleep, clock, flags, by, left);
}

static void on_alarm(int signo) { (void)signo; }

static void interrupted(clockid_t clock, const char *name)
{
    struct timespec left = {-1, -1}, end;
    struct itimerval soon = {.it_value.tv_usec = 20000};
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    check_fails(sleeps(clock, 0, &some, &left), EINTR, name);
    check((left.tv_sec == 4 || left.tv_sec == 5) && left.tv_nsec >= 0, "what is left is told: it has used little");
    need(clock_gettime(clock, &end) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    end.tv_sec += 5;
    check_fails(sleeps(clock, TIMER_ABSTIME, &end, NULL), EINTR, "until a time");
}

static void by_processor_time(void)
{
    clockid_t process, thread = ~0u << 3 | 2 | 4, own_thread = (clockid_t)(~(unsigned)getpid() << 3 | 2 | 4);
    struct timespec past = {0, 1};
    need(clock_getcpuclockid(0, &process) == 0, "clock_getcpuclockid");
    check(sleeps(CLOCK_PROCESS_CPUTIME_ID, 0, &none, NULL) == 0, "no time of the process's");
    check(sleeps(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &past, NULL) == 0, "until a time that is past");
    check(sleeps(process, TIMER_ABSTIME, &past, NULL) == 0, "the same by its id");
    interrupted(CLOCK_PROCESS_CPUTIME_ID, "a sleep that a signal ends");
    interrupted(process, "the same by its id");
    check_fails(sleeps(CLOCK_THREAD_CPUTIME_ID, 0, &none, NULL), EOPNOTSUPP, "by the thread's own time");
    check_fails(sleeps(thread, 0, &none, NULL), EINVAL, "the same by 0");
    check_fails(sleeps(own_thread, 0, &none, NULL), EINVAL, "the same by its id");
    check_fails(sleeps(thread, 0, &wrong, NULL), EINVAL, "a wrong time");
    check_fails(sleeps(CLOCK_PROCESS_CPUTIME_ID, 0, (void *)8, NULL), EFAULT, "a bad pointer");
    check_fails(sleeps(CLOCK_PROCESS_CPUTIME_ID, 0, &wrong, NULL), EINVAL, "a wrong time of the process's");
    check_fails(sleeps(CLOCK_MONOTONIC_COARSE, 0, (void *)8, NULL), EOPNOTSUPP, "a clock without sleeps");
    check_fails(sleeps(CLOCK_MONOTONIC_RAW, 0, &none, NULL), EOPNOTSUPP, "another one");
    check_fails(sleeps(10, 0, (void *)8, NULL), EINVAL, "no clock");
    check_fails(sleeps(99, 0, &none, NULL), EINVAL, "no clock");
}

static void set(void)
{
    static const clockid_t fixed[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI, 10, 99};
    clockid_t process;
    int refused = 0, count = sizeof fixed / sizeof *fixed;
    for (int i = 0; i < count; i++)
        refused += syscall(SYS_clock_settime, fixed[i], (void *)8) == -1 && errno == EINVAL;
    check(refused == count, "%d of %d clocks cannot be set", refused, count);
    check_fails(syscall(SYS_clock_settime, CLOCK_REALTIME, (void *)8), EFAULT, "the time of day, by a bad pointer");
    check_fails(syscall(SYS_clock_settime, CLOCK_REALTIME, &wrong), EINVAL, "by a wrong time");
    need(clock_getcpuclockid(0, &process) == 0, "clock_getcpuclockid");
    check_fails(syscall(SYS_clock_settime, process, &some), EPERM, "the time that the process has used");
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    by_processor_time();
    set();
    return check_done();
}
