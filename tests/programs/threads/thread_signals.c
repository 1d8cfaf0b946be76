// Signals in a process of several threads: who gets them, and in which order;
// whose masks and handlers are whose. One case per run.
#include "../common/targets.h"

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

// What all block waits for the first thread that unblocks it.
static atomic_int unblock;
static void *unblock_later(void *arg)
{
    STAY_UNTIL(unblock);
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
    STAY_UNTIL(targets[0].end);
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

static void *receive_queue(void *arg)
{
    targets[0].tid = own_tid();
    STAY_UNTIL(targets[0].end);
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(to_thread), CASE(to_process), CASE(prefers_main), CASE(process_pending), CASE(thread_pending),
        CASE(mask_inherited), CASE(pending_not_inherited), CASE(handlers_shared), CASE(no_such_thread),
        CASE(queued_to_thread), CASE(own_before_process),
    };
    return RUN_CASES(cases);
}
