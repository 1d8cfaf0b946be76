// Sleeps by the processor time of the process, or of another thread, that threads use meanwhile.
#include "../common/parallel.h"

static atomic_int stop;

static void *compute(void *arg)
{
    atomic_int *tid = arg;
    atomic_store(tid, (int)syscall(SYS_gettid));
    while (!atomic_load(&stop))
        ;
    return NULL;
}

static int64_t now(clockid_t clock) { return clock_ns(clock); }

// Sleeps for 30 ms of a clock's time; whether that had passed.
static int sleeps_for(clockid_t clock)
{
    struct timespec by = timespec_of(30 * MS);
    int64_t before = now(clock);
    return syscall(SYS_clock_nanosleep, clock, 0, &by, NULL) == 0 && now(clock) - before >= 30 * MS;
}

static int sleeps_until(clockid_t clock)
{
    struct timespec end = time_after(clock, 30 * MS);
    return syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, &end, NULL) == 0 && now(clock) >= end.tv_sec * NS_PER_S + end.tv_nsec;
}

int main(void)
{
    pthread_t thread;
    atomic_int tid = 0;
    need(pthread_create(&thread, NULL, compute, &tid) == 0, "pthread_create");
    AWAIT(atomic_load(&tid) != 0);
    clockid_t of_thread = (clockid_t)(~(unsigned)atomic_load(&tid) << 3 | 2 | 4);
    check(sleeps_for(CLOCK_PROCESS_CPUTIME_ID), "for a time that the process uses");
    check(sleeps_until(CLOCK_PROCESS_CPUTIME_ID), "until it has used it");
    check(sleeps_for(of_thread), "for a time that another thread uses");
    check(sleeps_until(of_thread), "until it has used it");
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    return check_done();
}
