// timer_create: signals for the process, for one thread, and calls in threads
// of their own (SIGEV_THREAD). One case per run.
#include "../common/parallel.h"

#include <sys/resource.h>
#include <sys/utsname.h>

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

// ---- Without the C library's view of ids and events ------------------------

static void *const nowhere = (void *)8;

static int raw_create(clockid_t clock, const void *event, void *id)
{
    return (int)syscall(SYS_timer_create, clock, event, id);
}
static int raw_settime(int id, int flags, const void *to, void *old)
{
    return (int)syscall(SYS_timer_settime, id, flags, to, old);
}
static int made(clockid_t clock, int notify, int signo)
{
    int id;
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signo};
    need(raw_create(clock, &event, &id) == 0, "timer_create");
    return id;
}
static void arm(int id, int flags, int64_t value_ns, int64_t period_ns)
{
    struct itimerspec time = {.it_value = timespec_of(value_ns), .it_interval = timespec_of(period_ns)};
    need(raw_settime(id, flags, &time, NULL) == 0, "timer_settime");
}
static struct itimerspec left(int id)
{
    struct itimerspec time;
    need(syscall(SYS_timer_gettime, id, &time) == 0, "timer_gettime");
    return time;
}
static int is_off(int id)
{
    static const struct itimerspec off;
    struct itimerspec time = left(id);
    return memcmp(&time, &off, sizeof off) == 0;
}
static long overrun(int id) { return syscall(SYS_timer_getoverrun, id); }
static int removed(int id) { return syscall(SYS_timer_delete, id) == 0; }

static sigset_t only(int signo)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}
static void block(int signo)
{
    sigset_t set = only(signo);
    need(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
}
static void unblock(int signo)
{
    sigset_t set = only(signo);
    need(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, "pthread_sigmask");
}
static siginfo_t wait_for(int signo)
{
    siginfo_t info;
    sigset_t set = only(signo);
    struct timespec limit = {.tv_sec = HANG_S};
    need(sigtimedwait(&set, &info, &limit) == signo, "the signal comes");
    return info;
}
// Until the clock has gone on by so much.
static void pass(clockid_t clock, int64_t ns)
{
    int64_t until = clock_ns(clock) + ns;
    AWAIT(clock_ns(clock) >= until);
}

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

static void processor_time(void)
{
    static const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int i = 0; i < 2; i++) {
        int id = made(clocks[i], SIGEV_SIGNAL, SIGRTMIN);
        catch_timer(SIGRTMIN);
        int64_t from = clock_ns(clocks[i]);
        arm(id, 0, 8 * MS, 4 * MS);
        AWAIT(hits);
        check(clock_ns(clocks[i]) - from >= 8 * MS, "not before so much is used");
        AWAIT(hits >= 3);
        check(clock_ns(clocks[i]) - from >= 16 * MS, "nor the others");
        check(left(id).it_interval.tv_nsec == 4 * MS && removed(id), "deleted");
    }
}

static void *run_for(void *ns)
{
    int64_t from = clock_ns(CLOCK_MONOTONIC);
    while (clock_ns(CLOCK_MONOTONIC) - from < *(int64_t *)ns) {
    }
    return NULL;
}
// What other threads use does not count.
static void time_of_one_thread(void)
{
    int64_t busy = 40 * MS;
    int id = made(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, SIGRTMIN);
    catch_timer(SIGRTMIN);
    int64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    arm(id, 0, 3600 * NS_PER_S, 0);
    joined(start(run_for, &busy));
    struct timespec to_go = left(id).it_value;
    int64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
    check(to_go.tv_sec * NS_PER_S + to_go.tv_nsec >= 3600 * NS_PER_S - used && hits == 0, "its own time only");
    check(removed(id), "deleted");
}

static void limited(void)
{
    int id;
    struct rlimit old, none;
    need(getrlimit(RLIMIT_SIGPENDING, &old) == 0, "getrlimit");
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    need(setrlimit(RLIMIT_SIGPENDING, &none) == 0, "setrlimit");
    check_fails(raw_create(CLOCK_MONOTONIC, NULL, &id), EAGAIN, "no signal may be queued");
    need(setrlimit(RLIMIT_SIGPENDING, &old) == 0, "setrlimit");
    check(raw_create(CLOCK_MONOTONIC, NULL, &id) == 0 && removed(id), "one may");
}

// A signal for a thread that is gone would end the program: no thread gets it, nor one that came after.
static void ended_thread(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    int id, after = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN + 1);
    end = target_tid = 0;
    block(SIGRTMIN + 1);
    pthread_t thread = start(serve, NULL);
    AWAIT(target_tid);
    memcpy((char *)&event + 16, (void *)&target_tid, sizeof(pid_t)); // sigev_notify_thread_id
    need(raw_create(CLOCK_MONOTONIC, &event, &id) == 0, "timer_create");
    end = 1;
    joined(thread);
    end = target_tid = 0;
    thread = start(serve, NULL);
    AWAIT(target_tid);
    arm(id, 0, MS, MS);
    arm(after, 0, 20 * MS, 0);
    wait_for(SIGRTMIN + 1);
    check(left(id).it_interval.tv_nsec == MS, "its timer is there");
    end = 1;
    joined(thread);
    check(removed(id) && removed(after), "deleted");
    unblock(SIGRTMIN + 1);
}

static void ignored(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN);
    catch_signal(SIGRTMIN, SIG_IGN, 0);
    arm(id, 0, MS, MS);
    pass(CLOCK_MONOTONIC, 5 * MS);
    catch_timer(SIGRTMIN);
    AWAIT(hits >= 3);
    check(removed(id), "ignored for a time, it goes on");
}

static int waits(int signo)
{
    sigset_t set;
    need(sigpending(&set) == 0, "sigpending");
    return sigismember(&set, signo);
}

// A signal that waits is forgotten when it is ignored, and its timer goes on. (Linux before 6.13: once it is set again.)
static void forgotten(void)
{
    struct utsname system;
    need(uname(&system) == 0, "uname");
    if (strverscmp(system.release, "6.13") < 0 && !strstr(system.release, "margay"))
        return;
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGRTMIN);
    block(SIGRTMIN);
    arm(id, 0, MS, 20 * MS);
    AWAIT(waits(SIGRTMIN));
    catch_signal(SIGRTMIN, SIG_IGN, 0);
    catch_timer(SIGRTMIN);
    AWAIT(waits(SIGRTMIN));
    check(removed(id), "forgotten with its signal, it goes on");
    unblock(SIGRTMIN);
}

static void ends_a_wait(void)
{
    int id = made(CLOCK_REALTIME, SIGEV_SIGNAL, SIGRTMIN);
    struct timespec hour = {.tv_sec = 3600};
    catch_timer(SIGRTMIN);
    arm(id, 0, 2 * MS, 2 * MS);
    check_fails(pause(), EINTR, "pause");
    check_fails(nanosleep(&hour, NULL), EINTR, "an hour's sleep");
    check(removed(id), "deleted");
}

// A stopped process is continued by its own timer, whether it takes the signal or not. Once it was not continued.
static void ends_a_stop(void)
{
    int id = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGCONT);
    for (int taken = 0; taken < 2; taken++) {
        if (taken)
            catch_timer(SIGCONT);
        int64_t at, from;
        // Again and again: one that expires before the stop does not end it. Then the check would tell nothing, and it stops once more.
        do {
            at = clock_ns(CLOCK_MONOTONIC) + 100 * MS;
            arm(id, TIMER_ABSTIME, at, 100 * MS);
            from = clock_ns(CLOCK_MONOTONIC);
            need(raise(SIGSTOP) == 0, "raise");
        } while (from >= at);
        check(clock_ns(CLOCK_MONOTONIC) >= at, "stopped until its timer continues it");
        if (taken)
            AWAIT(hits >= 1);
        arm(id, 0, 0, 0);
    }
    check(removed(id), "deleted");
}

// One that kills ends it, though it is stopped.
static void ends_a_stopped_one(void)
{
    int id = made(CLOCK_REALTIME, SIGEV_SIGNAL, SIGKILL);
    arm(id, 0, NS_PER_S, 0); // ample time: one that is killed before the stop tests nothing
    raise(SIGSTOP);
    AWAIT(0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(by_signal), CASE(one_shot), CASE(for_thread), CASE(by_thread), CASE(wrong), CASE(overruns),
        CASE(in_the_past), CASE(what_is_left), CASE(deleted), CASE(bad_arguments), CASE(by_default), CASE(silent), CASE(same_signal),
        CASE(processor_time), CASE(time_of_one_thread), CASE(limited), CASE(ended_thread), CASE(ignored), CASE(forgotten),
        CASE(ends_a_wait), CASE(ends_a_stop), CASE(ends_a_stopped_one),
    };
    return RUN_CASES(cases);
}
