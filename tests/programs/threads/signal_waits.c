// Threads that wait for signals, whose calls signals interrupt, and the stacks
// that handlers run on. One case per run.
#include "../common/targets.h"

#include <sys/time.h>

// ---- Waiting for signals ---------------------------------------------------

static atomic_int taken, wrong_value;
static void *take(void *arg)
{
    sigset_t set = only(SIGRTMIN + 1);
    for (int i = 0; i < *(int *)arg; i++) {
        siginfo_t info;
        int signo;
        do
            signo = sigwaitinfo(&set, &info);
        while (signo == -1 && errno == EINTR);
        wrong_value += signo != SIGRTMIN + 1 || info.si_value.sival_int != taken;
        taken++;
    }
    return NULL;
}
static void one_waits(void)
{
    sigset_t set = only(SIGRTMIN + 1), old;
    int count = 50;
    taken = wrong_value = 0;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    masks_are(set);
    targets_start();
    pthread_t thread = start(take, &count);
    // Half of them one after the other: on one processor the thread waits when the next one is sent.
    for (int i = 0; i < count; i++) {
        need(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0, "sigqueue");
        if (i < count / 2)
            AWAIT(taken > i);
    }
    joined(thread);
    check(taken == count && wrong_value == 0, "one thread takes %d signals by sigwaitinfo, in order", count);
    targets_end();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
// Each signal is taken once, whichever of several takes it.
static void *take_any(void *arg)
{
    sigset_t set = only(SIGRTMIN + 1);
    struct timespec second = {.tv_sec = 1};
    siginfo_t info;
    AWAIT(*(atomic_int *)arg);
    for (;;) {
        int signo = sigtimedwait(&set, &info, &second);
        if (signo == SIGRTMIN + 1 && info.si_value.sival_int < 0)
            return NULL;
        if (signo == SIGRTMIN + 1)
            taken += info.si_value.sival_int;
    }
}
static void several_wait(void)
{
    sigset_t set = only(SIGRTMIN + 1), old;
    pthread_t threads[4];
    atomic_int go = 0;
    taken = 0;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 4; i++)
        threads[i] = start(take_any, &go);
    go = 1;
    for (int i = 1; i <= 40; i++)
        need(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0, "sigqueue");
    for (int i = 0; i < 4; i++)
        need(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = -1}) == 0, "sigqueue");
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    check(taken == 820, "40 signals are taken by four threads, each once");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void wait_times_out(void)
{
    sigset_t set = only(SIGRTMIN + 1), old;
    struct timespec soon = timespec_of(20 * MS), wrong = {.tv_nsec = NS_PER_S};
    pthread_sigmask(SIG_BLOCK, &set, &old);
    masks_are(set);
    targets_start();
    int64_t from = clock_ns(CLOCK_MONOTONIC);
    queue_to(targets[0].tid, SIGRTMIN + 1, 1);
    check_fails(sigtimedwait(&set, NULL, &soon), EAGAIN, "another thread's signal is not there to take");
    check(clock_ns(CLOCK_MONOTONIC) - from >= 20 * MS, "not before 20 ms");
    check_fails(sigtimedwait(&set, NULL, &wrong), EINVAL, "a billion nanoseconds");
    targets_end();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void *suspended(void *arg)
{
    sigset_t open = none();
    targets[0].tid = own_tid();
    *(int *)arg = sigsuspend(&open) == -1 && errno == EINTR && hits[0] == 1;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    *(int *)arg += sigismember(&now, SIGUSR1);
    return NULL;
}
static void suspend(void)
{
    int right = 0;
    sigset_t set = only(SIGUSR1), old;
    catch_signal(SIGUSR1, note, 0);
    memset(targets, 0, sizeof targets);
    memset(hits, 0, sizeof hits);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    pthread_t thread = start(suspended, &right);
    AWAIT(targets[0].tid);
    kill(getpid(), SIGUSR1);
    joined(thread);
    check(right == 2, "sigsuspend lets it in, in the one thread that waits for it, and blocks it again");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// ---- What is interrupted ---------------------------------------------------

static atomic_int sleeps_done;
static void *sleep_long(void *arg)
{
    struct target *target = arg;
    struct timespec time = {.tv_sec = 1000}, left = {0};
    target->tid = own_tid();
    int result = nanosleep(&time, &left);
    sleeps_done++;
    target->end = result == -1 && errno == EINTR && left.tv_sec > 0 ? 2 : 1; // last: it is waited for
    return NULL;
}
static void interrupts_one(void)
{
    catch_signal(SIGUSR1, note, 0);
    memset(targets, 0, sizeof targets);
    memset(hits, 0, sizeof hits);
    sleeps_done = 0;
    for (int i = 0; i < 4; i++)
        targets[i].thread = start(sleep_long, &targets[i]);
    static const int order[] = {2, 0, 3, 1};
    for (int k = 0; k < 4; k++) {
        struct target *target = &targets[order[k]];
        AWAIT(target->tid);
        // It may not sleep yet.
        AWAIT(({
            signal_thread(target->tid, SIGUSR1);
            target->end != 0;
        }));
        check(target->end == 2 && sleeps_done == k + 1, "the sleep of one thread is interrupted, not the others'");
        joined(target->thread);
    }
}

static void timer(void)
{
    sigset_t set = only(SIGALRM), old;
    struct itimerval fast = {.it_value = {0, 1000}, .it_interval = {0, 1000}}, off = {0};
    catch_signal(SIGALRM, note, SA_RESTART);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    masks_are(set);
    targets[3].mask = none();
    targets_start();
    need(setitimer(ITIMER_REAL, &fast, NULL) == 0, "setitimer");
    AWAIT(hits[3] >= 5);
    setitimer(ITIMER_REAL, &off, NULL);
    check(hits[0] + hits[1] + hits[2] + main_hits == 0, "a timer's signals come to the thread that lets them in");
    targets_end();
    // One may be pending still.
    signal(SIGALRM, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// ---- Stacks ----------------------------------------------------------------

enum { ALT_BYTES = 64 << 10 };
static char alt_stacks[4][ALT_BYTES];
static atomic_int on_own_stack, off_stack;

static void on_alt(int signo)
{
    char here;
    (void)signo;
    pid_t tid = own_tid();
    for (int i = 0; i < 4; i++)
        if (targets[i].tid == tid && &here >= alt_stacks[i] && &here < alt_stacks[i] + ALT_BYTES) {
            stack_t now;
            on_own_stack += sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) && now.ss_sp == alt_stacks[i];
            return;
        }
    off_stack++;
}
static void *with_alt_stack(void *arg)
{
    struct target *target = arg;
    stack_t before, stack = {.ss_sp = alt_stacks[target - targets], .ss_size = ALT_BYTES};
    need(sigaltstack(NULL, &before) == 0, "sigaltstack");
    int fresh = before.ss_flags & SS_DISABLE;
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    target->tid = own_tid();
    STAY_UNTIL(target->end);
    return (void *)(intptr_t)(fresh != 0);
}
static void alt_stack_each(void)
{
    static char main_stack[ALT_BYTES];
    stack_t stack = {.ss_sp = main_stack, .ss_size = ALT_BYTES}, off = {.ss_flags = SS_DISABLE};
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    memset(targets, 0, sizeof targets);
    on_own_stack = off_stack = 0;
    catch_signal(SIGUSR1, on_alt, SA_ONSTACK);
    for (int i = 0; i < 4; i++)
        targets[i].thread = start(with_alt_stack, &targets[i]);
    for (int i = 0; i < 4; i++)
        AWAIT(targets[i].tid);
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 4; i++) {
            int before = on_own_stack;
            signal_thread(targets[i].tid, SIGUSR1);
            AWAIT(on_own_stack > before || off_stack);
        }
    check(on_own_stack == 20 && off_stack == 0, "each thread's handler runs on the stack that it has for that");
    for (int i = 0; i < 4; i++) {
        targets[i].end = 1;
        check(joined(targets[i].thread) != NULL, "a new thread has none of its maker's");
    }
    sigaltstack(&off, NULL);
}

// Faults are the thread's that made them, each with its own address.
static __thread sigjmp_buf back;
static __thread void *volatile fault_address;
static void on_fault(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    fault_address = info->si_addr;
    siglongjmp(back, 1);
}
static void *fault_often(void *arg)
{
    char *page = arg;
    for (volatile int i = 0; i < 100; i++) {
        fault_address = NULL;
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)(page + i) = 1;
        if (fault_address != page + i)
            return NULL;
    }
    return arg;
}
static void faults_each(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    char *pages = mmap(NULL, 4 * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED && sigaction(SIGSEGV, &action, NULL) == 0, "set-up");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(fault_often, pages + i * PAGE_BYTES);
    for (int i = 0; i < 4; i++)
        check(joined(threads[i]) != NULL, "100 faults of a thread, each with its address");
    signal(SIGSEGV, SIG_DFL);
    munmap(pages, 4 * PAGE_BYTES);
}

// Every thread signals every other one; none of a real-time signal is lost.
static atomic_int storm_hits;
static void storm_note(int signo)
{
    (void)signo;
    storm_hits++;
}
static atomic_int storm_ready, storm_done;
static void *storm_body(void *arg)
{
    struct target *own = arg;
    own->tid = own_tid();
    storm_ready++;
    AWAIT(storm_ready == 4);
    for (int round = 0; round < 25; round++)
        for (int i = 0; i < 4; i++)
            need(queue_to(targets[i].tid, SIGRTMIN + 2, round) == 0, "rt_tgsigqueueinfo");
    storm_done++;
    AWAIT(storm_done == 4 && storm_hits >= 400);
    return NULL;
}
static void storm(void)
{
    memset(targets, 0, sizeof targets);
    storm_hits = storm_ready = storm_done = 0;
    catch_signal(SIGRTMIN + 2, storm_note, SA_RESTART);
    for (int i = 0; i < 4; i++)
        targets[i].thread = start(storm_body, &targets[i]);
    for (int i = 0; i < 4; i++)
        joined(targets[i].thread);
    check(storm_hits == 400, "400 signals among four threads, none lost, none doubled");
}

// The C library has all threads take a new identity: the one that they have.
static void *become_itself(void *arg)
{
    for (int i = 0; i < 10; i++)
        if (setuid(getuid()) != 0 || setgid(getgid()) != 0 || setresuid(-1, geteuid(), -1) != 0)
            return NULL;
    return arg;
}
static void identity_of_all(void)
{
    masks_are(none());
    targets_start();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(become_itself, threads);
    for (int i = 0; i < 4; i++)
        check(joined(threads[i]) == threads, "a thread sets everybody's identity, ten times");
    targets_end();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(one_waits), CASE(several_wait), CASE(wait_times_out), CASE(suspend), CASE(interrupts_one), CASE(timer),
        CASE(alt_stack_each), CASE(faults_each), CASE(storm), CASE(identity_of_all),
    };
    return RUN_CASES(cases);
}
