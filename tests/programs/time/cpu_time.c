// CPU time: clock, the process and thread clocks, getrusage and times grow
// while computing, hardly while sleeping, and tell about the same.
#include "../common/check.h"
#include <sys/resource.h>
#include <sys/times.h>
#include <time.h>

static double process_s(void)
{
    struct timespec t;
    need(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0, "clock_gettime");
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static double thread_s(void)
{
    struct timespec t;
    need(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0, "clock_gettime");
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static double usage_s(void)
{
    struct rusage u;
    need(getrusage(RUSAGE_SELF, &u) == 0, "getrusage");
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(void)
{
    double process = process_s(), thread = thread_s(), usage = usage_s();
    clock_t ticks = clock();
    struct tms tms_before, tms_after;
    check(times(&tms_before) != (clock_t)-1, "times");
    while (process_s() - process < 0.3)
        ;
    check(1, "0.3 s of CPU time pass while computing");
    check(thread_s() - thread > 0.2, "the thread's clock agrees");
    check((double)(clock() - ticks) / CLOCKS_PER_SEC > 0.2, "clock agrees");
    check(usage_s() - usage > 0.2, "getrusage agrees");
    times(&tms_after);
    clock_t used = tms_after.tms_utime + tms_after.tms_stime - tms_before.tms_utime - tms_before.tms_stime;
    check(used > sysconf(_SC_CLK_TCK) / 5, "times agrees");

    process = process_s();
    nanosleep(&(struct timespec){0, 400000000}, NULL);
    check(process_s() - process < 0.3, "0.4 s of sleep are not CPU time");
    struct rusage u;
    need(getrusage(RUSAGE_SELF, &u) == 0, "getrusage");
    check(u.ru_maxrss > 0, "getrusage knows a peak of memory");
    check(getrusage(RUSAGE_CHILDREN, &u) == 0 && u.ru_utime.tv_sec == 0 && u.ru_maxrss == 0, "children used nothing");
    check(getrusage(RUSAGE_THREAD, &u) == 0, "RUSAGE_THREAD is known");
    check_fails(getrusage(77, &u), EINVAL, "who 77");
    check_fails(getrusage(RUSAGE_SELF, (struct rusage *)8), EFAULT, "a bad pointer");
    return check_done();
}
