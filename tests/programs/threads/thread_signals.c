// Signals in a process of several threads: who gets them, in which order, on
// which stack, and whose calls they interrupt. One case per run.
#include "../common/parallel.h"

#include <sys/time.h>
#include <ucontext.h>

// ---- Threads that wait for signals ----------------------------------------

// What a thread has seen of signals.
struct target {
    pthread_t thread;
    _Atomic pid_t tid;
    sigset_t mask;
    atomic_int end;
};
static struct target targets[4];
static atomic_int hits[4], other_hits, main_hits;

// Counts for the thread that the handler runs on.
static void note(int signo)
{
    (void)signo;
    pid_t tid = own_tid();
    for (int i = 0; i < 4; i++)
        if (tid == targets[i].tid) {
            hits[i]++;
            return;
        }
    if (tid == getpid())
        main_hits++;
    else
        other_hits++;
}

static void *serve(void *arg)
{
    struct target *target = arg;
    pthread_sigmask(SIG_SETMASK, &target->mask, NULL);
    target->tid = own_tid();
    AWAIT(target->end);
    return NULL;
}
static void targets_start(void)
{
    memset(hits, 0, sizeof hits);
    other_hits = main_hits = 0;
    for (int i = 0; i < 4; i++) {
        targets[i].tid = targets[i].end = 0;
        targets[i].thread = start(serve, &targets[i]);
    }
    for (int i = 0; i < 4; i++)
        AWAIT(targets[i].tid);
}
static void targets_end(void)
{
    for (int i = 0; i < 4; i++)
        targets[i].end = 1;
    for (int i = 0; i < 4; i++)
        joined(targets[i].thread);
}
static sigset_t only(int signo)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}
static sigset_t none(void)
{
    sigset_t set;
    sigemptyset(&set);
    return set;
}
static void masks_are(sigset_t set)
{
    for (int i = 0; i < 4; i++)
        targets[i].mask = set;
}

static void to_thread(void)
{
    catch_signal(SIGUSR1, note, 0);
    masks_are(none());
    targets_start();
    check(signal_thread(targets[2].tid, SIGUSR1) == 0, "tgkill");
    AWAIT(hits[2] == 1);
    check(pthread_kill(targets[1].thread, SIGUSR1) == 0, "pthread_kill");
    AWAIT(hits[1] == 1);
    check(syscall(SYS_tkill, targets[3].tid, SIGUSR1) == 0, "tkill");
    AWAIT(hits[3] == 1);
    check(hits[0] == 0 && main_hits == 0 && other_hits == 0, "each came to the thread that it was for");
    targets_end();
}

static void to_process(void)
{
    sigset_t set = only(SIGUSR1), old;
    catch_signal(SIGUSR1, note, 0);
    masks_are(set);
    targets[2].mask = none();
    pthread_sigmask(SIG_BLOCK, &set, &old);
    targets_start();
    for (int i = 1; i <= 5; i++) {
        check(kill(getpid(), SIGUSR1) == 0, "kill");
        AWAIT(hits[2] == i);
    }
    check(hits[0] + hits[1] + hits[3] + main_hits == 0, "the only thread that does not block it gets it");
    targets_end();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void prefers_main(void)
{
    catch_signal(SIGUSR1, note, 0);
    masks_are(none());
    targets_start();
    kill(getpid(), SIGUSR1);
    AWAIT(main_hits == 1);
    check(hits[0] + hits[1] + hits[2] + hits[3] == 0, "the main thread gets what is for the process, if it can");
    targets_end();
}

// What all block waits for whoever unblocks it first.
static atomic_int unblock;
static void *unblock_later(void *arg)
{
    AWAIT(unblock);
    sigset_t set = only(SIGUSR1);
    int before = other_hits;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    *(int *)arg = other_hits - before;
    return NULL;
}
static void process_pending(void)
{
    sigset_t set = only(SIGUSR1), old, pending;
    int got = 0;
    catch_signal(SIGUSR1, note, 0);
    memset(targets, 0, sizeof targets);
    unblock = other_hits = main_hits = 0;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    pthread_t thread = start(unblock_later, &got);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    sigpending(&pending);
    check(sigismember(&pending, SIGUSR1) && main_hits == 0, "it is pending while all block it");
    unblock = 1;
    joined(thread);
    check(got == 1 && main_hits == 0, "who unblocks it gets it, before pthread_sigmask returns, once");
    sigpending(&pending);
    check(!sigismember(&pending, SIGUSR1), "then it is not pending any more");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(main_hits == 0, "nor comes again");
}

// A signal for one thread that blocks it is pending for that thread alone.
static void *blocked_own(void *arg)
{
    sigset_t set = only(SIGUSR1), pending;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    targets[0].tid = own_tid();
    AWAIT(targets[0].end);
    sigpending(&pending);
    int seen = sigismember(&pending, SIGUSR1), before = hits[0];
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    *(int *)arg = seen && before == 0 && hits[0] == 1;
    return NULL;
}
static void thread_pending(void)
{
    int right = 0;
    sigset_t pending;
    memset(targets, 0, sizeof targets);
    memset(hits, 0, sizeof hits);
    main_hits = 0;
    catch_signal(SIGUSR1, note, 0);
    pthread_t thread = start(blocked_own, &right);
    AWAIT(targets[0].tid);
    signal_thread(targets[0].tid, SIGUSR1);
    sigpending(&pending);
    check(!sigismember(&pending, SIGUSR1) && main_hits == 0, "not pending for the main thread, nor caught by it");
    targets[0].end = 1;
    joined(thread);
    check(right, "pending for its own thread, and caught when that unblocks it");
}

static void *own_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return NULL;
}
static void mask_inherited(void)
{
    sigset_t set = only(SIGUSR2), old, seen, now;
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    joined(start(own_mask, &seen));
    check(sigismember(&seen, SIGUSR2) && sigismember(&seen, SIGRTMIN + 3) && !sigismember(&seen, SIGUSR1),
          "a new thread has its maker's mask");
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    check(!sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2), "what it does with its own is its own affair");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void *own_pending(void *arg)
{
    sigpending(arg);
    return NULL;
}
static void pending_not_inherited(void)
{
    sigset_t set = only(SIGUSR1), old, seen;
    catch_signal(SIGUSR1, note, 0);
    memset(targets, 0, sizeof targets);
    main_hits = 0;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    joined(start(own_pending, &seen));
    check(!sigismember(&seen, SIGUSR1), "what is pending for its maker is not for a new thread");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(main_hits == 1, "the maker gets it");
}

static void *change_action(void *arg)
{
    catch_signal(SIGUSR2, note, 0);
    return arg;
}
static void handlers_shared(void)
{
    struct sigaction action;
    memset(targets, 0, sizeof targets);
    main_hits = 0;
    signal(SIGUSR2, SIG_IGN);
    joined(start(change_action, NULL));
    sigaction(SIGUSR2, NULL, &action);
    check(action.sa_handler == note, "a handler that one thread sets is everybody's");
    raise(SIGUSR2);
    check(main_hits == 1, "the main thread runs it");
}

static void no_such_thread(void)
{
    memset(targets, 0, sizeof targets);
    masks_are(none());
    targets_start();
    pid_t tid = targets[0].tid;
    check(signal_thread(tid, 0) == 0, "signal 0 finds a thread");
    check_fails(syscall(SYS_tgkill, getpid() + 1, tid, SIGUSR1), ESRCH, "of another process");
    check_fails(signal_thread(tid, 65), EINVAL, "signal 65");
    check_fails(signal_thread(-1, SIGUSR1), EINVAL, "thread -1");
    targets_end();
    AWAIT(signal_thread(tid, 0) == -1);
    check_fails(signal_thread(tid, SIGUSR1), ESRCH, "a thread that has ended");
}

// ---- Values, order ---------------------------------------------------------

static atomic_int at;
static int signals_seen[16], values_seen[16], codes_seen[16];
static _Atomic pid_t handler_tid;
static void record(int signo, siginfo_t *info, void *context)
{
    (void)context;
    handler_tid = own_tid();
    int i = at;
    signals_seen[i] = signo;
    values_seen[i] = info->si_value.sival_int;
    codes_seen[i] = info->si_code;
    at = i + 1;
}
static void record_signal(int signo)
{
    struct sigaction action = {.sa_sigaction = record, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
}

static int queue_to(pid_t tid, int signo, int value)
{
    siginfo_t info = {.si_signo = signo, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signo, &info);
}
static void *receive_queue(void *arg)
{
    targets[0].tid = own_tid();
    AWAIT(targets[0].end);
    sigset_t set = none();
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    return arg;
}
static void queued_to_thread(void)
{
    static const struct {
        int signo, value;
    } sent[] = {{2, 1}, {0, 2}, {2, 3}, {1, 4}, {0, 5}, {0, 6}};
    static const int wanted[] = {2, 5, 6, 4, 1, 3};
    sigset_t all, old;
    sigfillset(&all);
    memset(targets, 0, sizeof targets);
    at = 0;
    for (int i = 0; i < 3; i++)
        record_signal(SIGRTMIN + i);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread = start(receive_queue, NULL);
    AWAIT(targets[0].tid);
    for (int i = 0; i < 6; i++)
        need(queue_to(targets[0].tid, SIGRTMIN + sent[i].signo, sent[i].value) == 0, "rt_tgsigqueueinfo");
    targets[0].end = 1;
    joined(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(at == 6, "six queued signals arrive");
    int right = 1;
    for (int i = 0; i < 6; i++)
        right &= values_seen[i] == wanted[i] && codes_seen[i] == SI_QUEUE;
    check(right, "by their numbers, then as they were sent, with their values");
    check(handler_tid == targets[0].tid, "in the thread that they were for");
}

// What is for the thread comes before what is for the process.
static void own_before_process(void)
{
    sigset_t set = only(SIGRTMIN), old;
    record_signal(SIGRTMIN);
    at = 0;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    queue_to(own_tid(), SIGRTMIN, 2);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(at == 2 && values_seen[0] == 2 && values_seen[1] == 1, "first the thread's, then the process's");
}

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
    for (int i = 0; i < count; i++)
        need(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) == 0, "sigqueue");
    joined(thread);
    check(taken == count && wrong_value == 0, "one thread takes %d signals by sigwaitinfo, in order", count);
    targets_end();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
// Each signal is taken once, whoever of several takes it.
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
    target->end = result == -1 && errno == EINTR && left.tv_sec > 0 ? 2 : 1;
    sleeps_done++;
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
    AWAIT(target->end);
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
        CASE(to_thread), CASE(to_process), CASE(prefers_main), CASE(process_pending), CASE(thread_pending),
        CASE(mask_inherited), CASE(pending_not_inherited), CASE(handlers_shared), CASE(no_such_thread),
        CASE(queued_to_thread), CASE(own_before_process), CASE(one_waits), CASE(several_wait), CASE(wait_times_out),
        CASE(suspend), CASE(interrupts_one), CASE(timer), CASE(alt_stack_each), CASE(faults_each), CASE(storm),
        CASE(identity_of_all),
    };
    return RUN_CASES(cases);
}
