// timer_create beside what becomes of the process: its processor time and limits, threads that end, signals that are
// ignored, waits and stops. One case per run.
#include "posix_timers.h"

#include <sys/resource.h>
#include <sys/utsname.h>

// Who yields beside busy processes hardly uses any time.
static void compute_until_hit(int times)
{
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;
    while (hits < times)
        need(clock_ns(CLOCK_MONOTONIC) < end_ns, "still waiting for hits");
}

static void processor_time(void)
{
    static const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int i = 0; i < 2; i++) {
        int id = made(clocks[i], SIGEV_SIGNAL, SIGRTMIN);
        catch_timer(SIGRTMIN);
        int64_t from = clock_ns(clocks[i]);
        arm(id, 0, 8 * MS, 4 * MS);
        compute_until_hit(1);
        check(clock_ns(clocks[i]) - from >= 8 * MS, "not before so much is used");
        compute_until_hit(3);
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
        CASE(processor_time), CASE(time_of_one_thread), CASE(limited), CASE(ended_thread), CASE(ignored), CASE(forgotten),
        CASE(ends_a_wait), CASE(ends_a_stop), CASE(ends_a_stopped_one),
    };
    return RUN_CASES(cases);
}
