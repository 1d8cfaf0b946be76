// Shared by the programs of timer_create: what a handler has seen, timers by their numbers, and one signal at a time.
#ifndef MARGAY_POSIX_TIMERS_H
#define MARGAY_POSIX_TIMERS_H

#include "../common/parallel.h"

static _Atomic pid_t seen_tid, target_tid;
static atomic_int hits, value, end;

CHECK_HELPER void note(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    seen_tid = own_tid();
    value = info->si_value.sival_int;
    hits += info->si_code == SI_TIMER;
}
CHECK_HELPER void catch_timer(int signo)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
    hits = value = seen_tid = target_tid = end = 0;
}
CHECK_HELPER struct itimerspec every(int64_t ns)
{
    return (struct itimerspec){.it_value = timespec_of(ns), .it_interval = timespec_of(ns)};
}

CHECK_HELPER void *serve(void *arg)
{
    target_tid = own_tid();
    STAY_UNTIL(end);
    return arg;
}
#ifndef SIGEV_THREAD_ID
#define SIGEV_THREAD_ID 4
#endif

// ---- Without the C library's view of ids and events ------------------------

CHECK_HELPER int raw_create(clockid_t clock, const void *event, void *id)
{
    return (int)syscall(SYS_timer_create, clock, event, id);
}
CHECK_HELPER int raw_settime(int id, int flags, const void *to, void *old)
{
    return (int)syscall(SYS_timer_settime, id, flags, to, old);
}
CHECK_HELPER int made(clockid_t clock, int notify, int signo)
{
    int id;
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signo};
    need(raw_create(clock, &event, &id) == 0, "timer_create");
    return id;
}
CHECK_HELPER void arm(int id, int flags, int64_t value_ns, int64_t period_ns)
{
    struct itimerspec time = {.it_value = timespec_of(value_ns), .it_interval = timespec_of(period_ns)};
    need(raw_settime(id, flags, &time, NULL) == 0, "timer_settime");
}
CHECK_HELPER struct itimerspec left(int id)
{
    struct itimerspec time;
    need(syscall(SYS_timer_gettime, id, &time) == 0, "timer_gettime");
    return time;
}
CHECK_HELPER int is_off(int id)
{
    static const struct itimerspec off;
    struct itimerspec time = left(id);
    return memcmp(&time, &off, sizeof off) == 0;
}
CHECK_HELPER long overrun(int id) { return syscall(SYS_timer_getoverrun, id); }
CHECK_HELPER int removed(int id) { return syscall(SYS_timer_delete, id) == 0; }

CHECK_HELPER sigset_t only(int signo)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}
CHECK_HELPER void block(int signo)
{
    sigset_t set = only(signo);
    need(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
}
CHECK_HELPER void unblock(int signo)
{
    sigset_t set = only(signo);
    need(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, "pthread_sigmask");
}
CHECK_HELPER siginfo_t wait_for(int signo)
{
    siginfo_t info;
    sigset_t set = only(signo);
    struct timespec limit = {.tv_sec = HANG_S};
    need(sigtimedwait(&set, &info, &limit) == signo, "the signal comes");
    return info;
}
// Until the clock has gone on by so much.
CHECK_HELPER void pass(clockid_t clock, int64_t ns)
{
    int64_t until = clock_ns(clock) + ns;
    AWAIT(clock_ns(clock) >= until);
}

#endif
