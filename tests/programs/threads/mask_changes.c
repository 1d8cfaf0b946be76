// Signals for the process while the masks of its threads change: each comes to a thread that does not block it by then. One case
// per run.
#include "../common/targets.h"

#include <poll.h>
#include <sys/epoll.h>

// The first thread that takes a signal is told of two before it runs. Its handler blocks the second, which the other thread takes:
// once that one was not told, for only what sa_mask holds was handed over, not the signal itself.
static atomic_int entered, left;
static void meet(int signo)
{
    (void)signo;
    entered++;
    AWAIT(entered == 2);
    left++;
}
static void handler_blocks(void)
{
    enum { ROUNDS = 20 };
    sigset_t set = only(SIGRTMIN), old;
    catch_signal(SIGRTMIN, meet, 0);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    masks_are(set);
    targets[0].mask = targets[1].mask = none();
    targets_start();
    for (int round = 0; round < ROUNDS; round++) {
        entered = left = 0;
        for (int i = 0; i < 2; i++)
            need(sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0, "sigqueue");
        AWAIT(left == 2);
    }
    check(1, "two threads run the handler at a time, %d times", ROUNDS);
    targets_end();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// A ppoll whose mask lets a signal in ends by a descriptor just when the signal comes: then another thread gets that. Once
// none did, for the thread that had been told blocked it again.
enum { POLLS = 100 };
static atomic_int poll_round, polls_begun;
static int ready_end;
static void *poll_ready(void *arg)
{
    sigset_t set = only(SIGUSR1), open = none();
    struct pollfd ready = {.fd = ready_end, .events = POLLIN};
    struct target *own = arg;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    own->tid = own_tid();
    for (int i = 1; i <= POLLS; i++) {
        AWAIT(poll_round == i);
        polls_begun = i;
        ppoll(&ready, 1, NULL, &open);
    }
    return NULL;
}
static void poll_ends(void)
{
    sigset_t set = only(SIGUSR1), old;
    int ends[2];
    need(pipe(ends) == 0 && write(ends[1], "", 1) == 1, "pipe");
    ready_end = ends[0];
    catch_signal(SIGUSR1, note, 0);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    memset(targets, 0, sizeof targets);
    memset(hits, 0, sizeof hits);
    poll_round = polls_begun = 0;
    targets[0].thread = start(poll_ready, &targets[0]);
    AWAIT(targets[0].tid);
    targets[1].mask = none();
    targets[1].thread = start(serve, &targets[1]);
    AWAIT(targets[1].tid);
    for (int i = 1; i <= POLLS; i++) {
        poll_round = i;
        AWAIT(polls_begun == i);
        kill(getpid(), SIGUSR1);
        AWAIT(hits[0] + hits[1] == i);
    }
    check(1, "a thread in ppoll or another gets each of %d signals", POLLS);
    targets[1].end = 1;
    joined(targets[0].thread);
    joined(targets[1].thread);
    close(ends[0]);
    close(ends[1]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// One thread of many takes a signal, and not one of the first. While the sender still has to look who that is, it makes that
// thread move, which then looks itself. Once it looked at all but itself, and went on with the signal pending.
enum { MANY = 11, SENDS = 300 };
static atomic_int caught, stop;
static void count(int signo)
{
    (void)signo;
    caught++;
}
static void *wait_for_stop(void *arg)
{
    STAY_UNTIL(futex_wait(&stop, 0) == -1);
    return arg;
}
static void *run_until_stop(void *arg)
{
    sigset_t open = none();
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    *(_Atomic pid_t *)arg = own_tid();
    while (!stop)
        ;
    return NULL;
}
// The last two cores that there are.
static void two_places(cpu_set_t places[2])
{
    cpu_set_t cores;
    int found = 0;
    need(sched_getaffinity(0, sizeof cores, &cores) == 0, "sched_getaffinity");
    for (int core = CPU_SETSIZE - 1; core >= 0 && found < 2; core--)
        if (CPU_ISSET(core, &cores)) {
            CPU_ZERO(&places[found]);
            CPU_SET(core, &places[found++]);
        }
    if (found == 1)
        places[1] = places[0];
}
static void last_of_many(void)
{
    sigset_t set = only(SIGUSR1), old;
    pthread_t threads[MANY];
    _Atomic pid_t runs = 0;
    cpu_set_t places[2];
    catch_signal(SIGUSR1, count, 0);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    two_places(places);
    caught = stop = 0;
    for (int i = 0; i < MANY; i++)
        threads[i] = i < MANY - 1 ? start(wait_for_stop, NULL) : start(run_until_stop, &runs);
    AWAIT(runs);
    for (int i = 1; i <= SENDS; i++) {
        need(sched_setaffinity(runs, sizeof places[0], &places[i % 2]) == 0, "sched_setaffinity");
        for (volatile int spin = 0; spin < i * 7 % 300; spin++)
            ;
        kill(getpid(), SIGUSR1);
        AWAIT(caught == i);
    }
    check(1, "the last of %d threads takes each of %d signals", MANY, SENDS);
    stop = 1;
    futex_wake(&stop, INT_MAX);
    for (int i = 0; i < MANY; i++)
        joined(threads[i]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// A timer's signal comes in the instant in which a thread ends, on that thread's core, and one of many threads takes it, not one of the
// first. Once the thread that had ended was to find out which, and nobody did. It takes longer to end where another signal waits.
enum { CROWD = 100, ENDS = 200 };
static timer_t timer;
static int64_t early_ns;
static void *wait_unblocked(void *arg)
{
    sigset_t set = only(SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    *(_Atomic pid_t *)arg = own_tid();
    while (!stop)
        futex_wait(&stop, 0);
    return NULL;
}
static void *end_by_timer(void *arg)
{
    enum { IN_NS = 300000 };
    struct itimerspec once = {.it_value = timespec_of(IN_NS)};
    int64_t end = clock_ns(CLOCK_MONOTONIC) + IN_NS - early_ns;
    need(timer_settime(timer, 0, &once, NULL) == 0, "timer_settime");
    while (clock_ns(CLOCK_MONOTONIC) < end)
        ;
    syscall(SYS_exit, 0);
    return arg;
}
static void beside_ends(void)
{
    sigset_t set = only(SIGUSR1), old;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    pthread_t threads[CROWD];
    _Atomic pid_t waits = 0;
    catch_signal(SIGUSR1, count, 0);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR2);
    caught = stop = 0;
    for (int i = 0; i < CROWD; i++)
        threads[i] = i < CROWD - 1 ? start(wait_for_stop, NULL) : start(wait_unblocked, &waits);
    AWAIT(waits);
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    for (int i = 1; i <= ENDS; i++) {
        early_ns = i * 7919 % 100000;
        pthread_t ends = start(end_by_timer, NULL);
        AWAIT(caught == i);
        joined(ends);
    }
    check(1, "the last of %d threads takes each of %d signals", CROWD, ENDS);
    timer_delete(timer);
    stop = 1;
    futex_wake(&stop, INT_MAX);
    for (int i = 0; i < CROWD; i++)
        joined(threads[i]);
    signal(SIGUSR2, SIG_IGN); // it is forgotten
    signal(SIGUSR2, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// A sigsuspend starts again after an ignored signal, and a signal with a handler comes just then: the handler ends the sigsuspend,
// or does not run before that has begun again. Once it ran in between, under the mask of the sigsuspend, which then slept on.
enum { SUSPENDS = 15000 };
static atomic_int suspends, suspends_over;
static void *end_suspends(void *arg)
{
    for (int i = 1; i <= SUSPENDS; i++) {
        // Without a yield, or it comes too late for the restart.
        for (int look = 0; look < 100000 && suspends != i; look++)
            ;
        AWAIT(suspends == i);
        for (volatile int spin = 0; spin < i * 7919 % 1000; spin++)
            ;
        signal_thread(getpid(), SIGUSR1);
        AWAIT(suspends_over == i);
    }
    return arg;
}
static void suspend_restarts(void)
{
    sigset_t set = only(SIGUSR1), open = none(), old;
    sigaddset(&set, SIGCHLD);
    catch_signal(SIGUSR1, count, 0);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    caught = suspends = suspends_over = 0;
    pthread_t thread = start(end_suspends, NULL);
    int right = 1;
    for (int i = 1; i <= SUSPENDS; i++) {
        raise(SIGCHLD);
        suspends = i;
        right &= sigsuspend(&open) == -1 && errno == EINTR && caught == i;
        suspends_over = i;
    }
    joined(thread);
    check(right, "a handler ends each of %d sigsuspends", SUSPENDS);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// A thread waits in a call while signals come again and again that only it lets in, and that are ignored: poll goes on to its
// end, and epoll_wait is over. Once both began again, with their whole time.
static atomic_int waited;
static int64_t waited_ns;
static long wait_result;
static void *wait_in_poll(void *arg)
{
    enum { LIMIT_MS = 300 };
    int64_t from = clock_ns(CLOCK_MONOTONIC);
    wait_result = poll(NULL, 0, LIMIT_MS);
    waited_ns = clock_ns(CLOCK_MONOTONIC) - from - LIMIT_MS * MS;
    waited = 1;
    return arg;
}
static void *wait_in_epoll(void *arg)
{
    struct epoll_event event;
    wait_result = epoll_wait(*(int *)arg, &event, 1, -1) == -1 ? errno : 0;
    waited = 1;
    return arg;
}
static void *wait_in_epoll_pwait(void *arg)
{
    struct epoll_event event;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    sigdelset(&all, SIGCHLD);
    wait_result = epoll_pwait(*(int *)arg, &event, 1, -1, &all) == -1 ? errno : 0;
    waited = 1;
    return arg;
}
static void with_ignored(void *(*wait)(void *), int *arg)
{
    sigset_t set = only(SIGCHLD), old;
    waited = 0;
    pthread_t thread = start(wait, arg);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    AWAIT(({
        kill(getpid(), SIGCHLD);
        waited;
    }));
    joined(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
static void ignored(void)
{
    int epoll = epoll_create1(0);
    need(epoll >= 0, "epoll_create1");
    with_ignored(wait_in_poll, NULL);
    check(wait_result == 0 && waited_ns >= 0, "poll waits as long as it is to");
    with_ignored(wait_in_epoll, &epoll);
    check(wait_result == EINTR, "epoll_wait is interrupted");
    with_ignored(wait_in_epoll_pwait, &epoll);
    check(wait_result == EINTR, "epoll_pwait, too");
    close(epoll);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(handler_blocks), CASE(poll_ends), CASE(last_of_many), CASE(beside_ends), CASE(suspend_restarts), CASE(ignored),
    };
    return RUN_CASES(cases);
}
