// timer_create: signals for the process, for one thread, and calls in threads
// of their own (SIGEV_THREAD). One case per run.
#include "posix_timers.h"

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

static void *const nowhere = (void *)8;

// Each expiration is a signal or an overrun of one: what is told lies between what had expired before and after.
static void overruns(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN);
    catch_timer(SIGRTMIN); // the last signal may outlive the timer
    block(SIGRTMIN);
    int64_t first = clock_ns(CLOCK_MONOTONIC);
    arm(id, 0, MS, MS);
    int64_t last = clock_ns(CLOCK_MONOTONIC), told = 0;
    check(overrun(id) == 0, "none yet");
    for (int i = 0; i < 3; i++) {
        pass(CLOCK_MONOTONIC, 10 * MS);
        int64_t before = clock_ns(CLOCK_MONOTONIC);
        siginfo_t info = wait_for(SIGRTMIN);
        int64_t after = clock_ns(CLOCK_MONOTONIC);
        told += 1 + info.si_overrun;
        check(info.si_code == SI_TIMER && info.si_timerid == id, "the timer's signal");
        check(overrun(id) == info.si_overrun && info.si_overrun >= 8, "many expirations, one signal");
        check(told >= (before - last) / MS && told <= (after - first) / MS, "all of them");
    }
    check(left(id).it_value.tv_nsec <= MS && left(id).it_interval.tv_nsec == MS, "it goes on");
    check(removed(id), "deleted");
    unblock(SIGRTMIN);
}

static void in_the_past(void)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID};
    block(SIGRTMIN);
    for (int i = 0; i < 4; i++) {
        int id = made(clocks[i], SIGEV_SIGNAL, SIGRTMIN);
        arm(id, TIMER_ABSTIME, 1, 0);
        check(wait_for(SIGRTMIN).si_overrun == 0 && is_off(id), "at once, and only once");
        check(removed(id), "deleted");
    }
    // Every hour since 1970.
    int64_t hour = 3600 * NS_PER_S, before = (clock_ns(CLOCK_REALTIME) - 1) / hour;
    int id = made(CLOCK_REALTIME, SIGEV_SIGNAL, SIGRTMIN);
    arm(id, TIMER_ABSTIME, 1, hour);
    int missed = wait_for(SIGRTMIN).si_overrun;
    check(missed >= before && missed <= (clock_ns(CLOCK_REALTIME) - 1) / hour, "all hours were missed");
    check(removed(id), "deleted");
    unblock(SIGRTMIN);
}

static void what_is_left(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN);
    struct itimerspec time = {.it_value.tv_sec = 7200, .it_interval = {5, 6}}, old;
    check(is_off(id), "a new timer is off");
    arm(id, 0, 3600 * NS_PER_S, 7 * NS_PER_S);
    check(left(id).it_value.tv_sec <= 3600 && left(id).it_value.tv_sec > 3500, "an hour");
    check(left(id).it_interval.tv_sec == 7, "and seven seconds");
    check(raw_settime(id, 0, &time, &old) == 0 && old.it_interval.tv_sec == 7 && old.it_value.tv_sec > 3500, "the old one");
    check(left(id).it_interval.tv_nsec == 6 && left(id).it_value.tv_sec > 7000, "the new one");
    time.it_value.tv_sec = 0;
    check(raw_settime(id, TIMER_ABSTIME, &time, NULL) == 0 && is_off(id), "zero turns it off, interval and all");
    check(raw_settime(id, 0, &time, &old) == 0 && old.it_interval.tv_sec == 0 && old.it_value.tv_sec == 0, "it was");
    check(removed(id), "deleted");
}

static void deleted(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN + 1), gone, is_gone;
    int64_t at, ahead = 10 * MS;
    block(SIGRTMIN + 1);
    // One that may have expired before it was deleted is followed by another with more time.
    do {
        catch_timer(SIGRTMIN);
        gone = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN);
        ahead *= 2;
        at = clock_ns(CLOCK_MONOTONIC) + ahead;
        arm(gone, TIMER_ABSTIME, at, MS);
        is_gone = removed(gone);
    } while (is_gone && clock_ns(CLOCK_MONOTONIC) >= at);
    check(is_gone, "deleted while it runs");
    arm(id, TIMER_ABSTIME, at + 50 * MS, 0);
    wait_for(SIGRTMIN + 1);
    check(hits == 0, "nothing comes of it");
    check_fails(removed(gone) - 1, EINVAL, "delete it again");
    check_fails((int)overrun(gone), EINVAL, "its overruns");
    check(removed(id), "deleted");
    unblock(SIGRTMIN + 1);
}

static void bad_arguments(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_NONE, 0), other;
    struct sigevent event = {.sigev_notify = 99, .sigev_signo = SIGRTMIN};
    struct itimerspec time = {.it_value.tv_sec = 1};
    check_fails(raw_create(CLOCK_MONOTONIC, nowhere, &other), EFAULT, "an event nowhere");
    check_fails(raw_create(99, nowhere, &other), EFAULT, "which is seen first");
    check_fails(raw_create(CLOCK_MONOTONIC, NULL, nowhere), EFAULT, "an id nowhere");
    check_fails(raw_create(CLOCK_MONOTONIC, &event, &other), EINVAL, "an unknown notification");
    event.sigev_notify = SIGEV_THREAD_ID;
    check_fails(raw_create(CLOCK_MONOTONIC, &event, &other), EINVAL, "thread 0");
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = 0;
    check_fails(raw_create(CLOCK_MONOTONIC, &event, &other), EINVAL, "signal 0");
    check_fails(raw_create(CLOCK_MONOTONIC_RAW, NULL, &other), EOPNOTSUPP, "a raw clock");
    check_fails(raw_create(CLOCK_REALTIME_COARSE, NULL, &other), EOPNOTSUPP, "a coarse clock");
    check_fails(raw_create(10, NULL, &other), EINVAL, "a clock that is gone");
    check_fails(raw_settime(id, 0, NULL, NULL), EINVAL, "no time");
    check_fails(raw_settime(id, 0, nowhere, NULL), EFAULT, "a time nowhere");
    check_fails(raw_settime(-1, 0, &time, NULL), EINVAL, "timer -1");
    check_fails(raw_settime(12345, 0, &time, NULL), EINVAL, "timer 12345");
    check_fails((int)syscall(SYS_timer_gettime, id, nowhere), EFAULT, "what is left, nowhere");
    check_fails((int)syscall(SYS_timer_gettime, 12345, &time), EINVAL, "what is left of timer 12345");
    check_fails(raw_settime(id, 0, &time, nowhere), EFAULT, "the old time nowhere");
    check(!is_off(id), "the new one is set");
    time.it_value.tv_sec = -1;
    check_fails(raw_settime(id, 0, &time, NULL), EINVAL, "a negative time");
    time = (struct itimerspec){.it_interval.tv_nsec = -1};
    check_fails(raw_settime(id, 0, &time, NULL), EINVAL, "a negative interval");
    check(removed(id), "deleted");
}

static void by_default(void)
{
    int id;
    block(SIGALRM);
    need(raw_create(CLOCK_MONOTONIC, NULL, &id) == 0, "timer_create");
    arm(id, 0, MS, 0);
    siginfo_t info = wait_for(SIGALRM);
    check(info.si_timerid == id && info.si_value.sival_int == id, "SIGALRM with the timer's id");
    check(removed(id), "deleted");
    unblock(SIGALRM);
}

static void silent(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_NONE, SIGRTMIN);
    catch_timer(SIGRTMIN);
    arm(id, 0, 2 * MS, 0);
    AWAIT(is_off(id));
    arm(id, 0, MS, 10 * MS);
    pass(CLOCK_MONOTONIC, 3 * MS);
    check(left(id).it_value.tv_nsec <= 10 * MS && left(id).it_value.tv_nsec > 0, "it goes on unseen");
    check(hits == 0 && overrun(id) == 0, "and tells nobody");
    check(removed(id), "deleted");
}

// A standard signal that waits is not sent again by kill, but by each timer.
static void same_signal(void)
{
    int ids[3], seen[3] = {0};
    block(SIGALRM);
    for (int i = 0; i < 3; i++) {
        ids[i] = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGALRM);
        arm(ids[i], 0, MS, 0);
    }
    AWAIT(is_off(ids[0]) && is_off(ids[1]) && is_off(ids[2]));
    for (int i = 0; i < 3; i++) {
        int from = wait_for(SIGALRM).si_timerid;
        for (int j = 0; j < 3; j++)
            seen[j] += from == ids[j];
    }
    check(seen[0] == 1 && seen[1] == 1 && seen[2] == 1, "one signal from each");
    check(removed(ids[0]) && removed(ids[1]) && removed(ids[2]), "deleted");
    unblock(SIGALRM);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(by_signal), CASE(one_shot), CASE(for_thread), CASE(by_thread), CASE(wrong), CASE(overruns), CASE(in_the_past),
        CASE(what_is_left), CASE(deleted), CASE(bad_arguments), CASE(by_default), CASE(silent), CASE(same_signal),
    };
    return RUN_CASES(cases);
}
