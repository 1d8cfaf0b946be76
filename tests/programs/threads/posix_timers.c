// timer_create: signals for the process, for one thread, and calls in threads
// of their own (SIGEV_THREAD). One case per run.
#include "../common/parallel.h"

static _Atomic pid_t seen_tid, target_tid;
static atomic_int hits, value, end;

static void note(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    seen_tid = own_tid();
    value = info->si_value.sival_int;
    hits += info->si_code == SI_TIMER;
}
static void catch_timer(int signo)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
    hits = value = seen_tid = target_tid = end = 0;
}
static struct itimerspec every(int64_t ns)
{
    return (struct itimerspec){.it_value = timespec_of(ns), .it_interval = timespec_of(ns)};
}

static void by_signal(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 12};
    struct itimerspec time = every(2 * MS), left;
    catch_timer(SIGRTMIN);
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &time, NULL) == 0, "every 2 ms");
    AWAIT(hits >= 5);
    check(value == 12, "five signals with their value");
    check(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 2 * MS, "the interval is told");
    check(timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0, "deleted");
}

static void one_shot(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    int64_t at = clock_ns(CLOCK_MONOTONIC) + 5 * MS;
    struct itimerspec time = {.it_value = timespec_of(at)}, left;
    catch_timer(SIGRTMIN);
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    check(timer_settime(timer, TIMER_ABSTIME, &time, NULL) == 0, "at a time");
    AWAIT(hits == 1);
    check(clock_ns(CLOCK_MONOTONIC) >= at, "not before");
    check(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0, "then it is off");
    timer_delete(timer);
}

static void *serve(void *arg)
{
    target_tid = own_tid();
    AWAIT(end);
    return arg;
}
#ifndef SIGEV_THREAD_ID
#define SIGEV_THREAD_ID 4
#endif
static void for_thread(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 3};
    struct itimerspec time = every(2 * MS);
    catch_timer(SIGRTMIN);
    pthread_t thread = start(serve, NULL);
    AWAIT(target_tid);
    memcpy((char *)&event + 16, (void *)&target_tid, sizeof(pid_t)); // sigev_notify_thread_id
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &time, NULL) == 0, "for a thread");
    AWAIT(hits >= 3);
    check(seen_tid == target_tid && value == 3, "it gets the signals, no other");
    timer_delete(timer);
    end = 1;
    joined(thread);
}

static void called(union sigval sigval)
{
    value = sigval.sival_int;
    seen_tid = own_tid();
    hits++;
}
static void by_thread(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = called, .sigev_value.sival_int = 9};
    struct itimerspec time = every(2 * MS), off = {0};
    hits = value = seen_tid = 0;
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &time, NULL) == 0, "calls");
    AWAIT(hits >= 3);
    check(value == 9 && seen_tid != getpid(), "in a thread of their own, with their value");
    check(timer_settime(timer, 0, &off, NULL) == 0 && timer_delete(timer) == 0, "switched off and deleted");
}

// A process that stops stops in all its threads; the timer's SIGCONT has them go on.
static atomic_long progress[4];
static void *compute(void *arg)
{
    while (!end)
        ++*(atomic_long *)arg;
    return NULL;
}
static void continues(void)
{
    timer_t timer;
    pthread_t threads[4];
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    int64_t at = clock_ns(CLOCK_MONOTONIC) + 30 * MS;
    // Again and again, in case that it comes before the stop.
    struct itimerspec time = {.it_value = timespec_of(at), .it_interval = timespec_of(30 * MS)};
    end = 0;
    memset(progress, 0, sizeof progress);
    for (int i = 0; i < 4; i++)
        threads[i] = start(compute, &progress[i]);
    for (int i = 0; i < 4; i++)
        AWAIT(progress[i] > 0);
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    check(timer_settime(timer, TIMER_ABSTIME, &time, NULL) == 0, "to be continued in 30 ms");
    kill(getpid(), SIGSTOP);
    AWAIT(clock_ns(CLOCK_MONOTONIC) >= at);
    long before[4];
    for (int i = 0; i < 4; i++)
        before[i] = progress[i];
    for (int i = 0; i < 4; i++)
        AWAIT(progress[i] > before[i]);
    check(1, "stopped and continued, all threads go on");
    end = 1;
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    timer_delete(timer);
}

static void wrong(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 99};
    struct itimerspec many = {.it_value.tv_nsec = NS_PER_S};
    check_fails(timer_create(CLOCK_MONOTONIC, &event, &timer), EINVAL, "signal 99");
    check_fails(timer_create(99, NULL, &timer), EINVAL, "clock 99");
    need(timer_create(CLOCK_REALTIME, NULL, &timer) == 0, "timer_create");
    check_fails(timer_settime(timer, 0, &many, NULL), EINVAL, "a billion nanoseconds");
    timer_delete(timer);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(by_signal), CASE(one_shot), CASE(for_thread), CASE(by_thread), CASE(continues), CASE(wrong),
    };
    return RUN_CASES(cases);
}
