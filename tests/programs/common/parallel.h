// Shared by the C programs of threads/: named cases, threads with small
// stacks, futexes by system call, and waiting for what another thread does.
//
// Only the main thread checks and prints, so that output does not depend on
// who runs when; other threads leave results in memory.
#ifndef MARGAY_PARALLEL_H
#define MARGAY_PARALLEL_H

#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

// ---- Cases ---------------------------------------------------------------

// One row of the table runs one case by its name.
struct test_case {
    const char *name;
    void (*run)(void);
};
#define CASE(name) {#name, name}

// `PROGRAM CASE` runs a case, `PROGRAM all [ROUNDS [CASE...]]` all of them, or these, ROUNDS times. The last check is not there
// when a case ends the program.
CHECK_HELPER int is_chosen(int argc, char **argv, const char *name)
{
    if (argc < 2 || strcmp(argv[1], "all") != 0)
        return argc > 1 && strcmp(argv[1], name) == 0;
    int chosen = argc <= 3;
    for (int i = 3; i < argc; i++)
        chosen |= strcmp(argv[i], name) == 0;
    return chosen;
}

CHECK_HELPER int run_cases(int argc, char **argv, const struct test_case *cases, size_t count)
{
    int all = argc > 1 && strcmp(argv[1], "all") == 0, ran = 0;
    int rounds = all && argc > 2 ? atoi(argv[2]) : 1;
    int wanted = !all ? 1 : argc > 3 ? argc - 3 : (int)count;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            if (is_chosen(argc, argv, cases[i].name)) {
                ran++;
                cases[i].run();
            }
    check(ran == rounds * wanted, "cases that ran: %d, rounds: %d", wanted, rounds);
    return check_done();
}
#define RUN_CASES(cases) run_cases(argc, argv, cases, sizeof cases / sizeof cases[0])

// The number in this argument, or what stands for it when there is none.
CHECK_HELPER long number_arg(int argc, char **argv, int index, long otherwise)
{
    return index < argc ? atol(argv[index]) : otherwise;
}

// ---- Time ----------------------------------------------------------------

enum { HANG_S = 20 };
#define MS INT64_C(1000000)

CHECK_HELPER struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

// So many nanoseconds from now.
CHECK_HELPER struct timespec time_after(clockid_t clock, int64_t ns) { return timespec_of(clock_ns(clock) + ns); }

// Yields until the condition holds; ends the program when it does not come to pass.
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        int64_t await_end = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;                                             \
        while (!(condition)) {                                                                                         \
            need(clock_ns(CLOCK_MONOTONIC) < await_end, "still waiting for " #condition);                              \
            sched_yield();                                                                                             \
        }                                                                                                              \
    } while (0)

// The same of a thread that is there for as long as a case goes on, which on a busy machine takes its time: without an end of its own.
#define STAY_UNTIL(condition)                                                                                          \
    while (!(condition))                                                                                               \
    sched_yield()

// ---- Threads -------------------------------------------------------------

enum { SMALL_STACK_BYTES = 128 << 10 };

// Starts a thread with a stack of this size; 0 or the error.
CHECK_HELPER int try_start(pthread_t *thread, size_t stack_bytes, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    need(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, stack_bytes) == 0, "pthread_attr");
    int error = pthread_create(thread, &attr, body, arg);
    pthread_attr_destroy(&attr);
    return error;
}

CHECK_HELPER pthread_t start(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    errno = try_start(&thread, SMALL_STACK_BYTES, body, arg);
    need(errno == 0, "pthread_create");
    return thread;
}

// What the thread returned.
CHECK_HELPER void *joined(pthread_t thread)
{
    void *result;
    errno = pthread_join(thread, &result);
    need(errno == 0, "pthread_join");
    return result;
}

CHECK_HELPER pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }
CHECK_HELPER int signal_thread(pid_t tid, int signo) { return (int)syscall(SYS_tgkill, getpid(), tid, signo); }

CHECK_HELPER void catch_signal(int signo, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
}

// ---- Futexes -------------------------------------------------------------

// As in linux/futex.h, which musl's compiler does not find.
enum {
    FUTEX_WAIT, FUTEX_WAKE, FUTEX_FD, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_LOCK_PI, FUTEX_UNLOCK_PI,
    FUTEX_TRYLOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI2,
    FUTEX_PRIVATE_FLAG = 128, FUTEX_CLOCK_REALTIME = 256,
};
#define FUTEX_BITSET_MATCH_ANY UINT32_MAX
#define FUTEX_WAITERS UINT32_C(0x80000000)
#define FUTEX_OWNER_DIED UINT32_C(0x40000000)
#define FUTEX_TID_MASK UINT32_C(0x3fffffff)

#define PRIVATE(op) ((op) | FUTEX_PRIVATE_FLAG)
typedef _Atomic uint32_t word_t;

// As the manual page has it: `timeout` may also be a number, for the operations that take one there.
CHECK_HELPER long futex(void *word, int op, uint32_t value, const void *timeout, void *other, uint32_t value3)
{
    return syscall(SYS_futex, word, op, value, timeout, other, value3);
}

CHECK_HELPER long futex_wait(void *word, uint32_t value)
{
    return futex(word, PRIVATE(FUTEX_WAIT), value, NULL, NULL, 0);
}
CHECK_HELPER long futex_wake(void *word, int count)
{
    return futex(word, PRIVATE(FUTEX_WAKE), (uint32_t)count, NULL, NULL, 0);
}

// A thread that waits once, and what came of it.
struct waiter {
    void *word;
    uint32_t value, bits;           // with bits: FUTEX_WAIT_BITSET
    int shared;
    const struct timespec *timeout; // NULL: none
    pthread_t thread;
    _Atomic pid_t tid;
    long result;
    int error;
    atomic_int done;
};

CHECK_HELPER void *waiter_body(void *arg)
{
    struct waiter *w = (struct waiter *)arg;
    int op = (w->bits ? FUTEX_WAIT_BITSET : FUTEX_WAIT) | (w->shared ? 0 : FUTEX_PRIVATE_FLAG);
    w->tid = own_tid();
    w->result = futex(w->word, op, w->value, w->timeout, NULL, w->bits);
    w->error = w->result == -1 ? errno : 0;
    w->done = 1;
    return NULL;
}

CHECK_HELPER void waiter_start(struct waiter *w, void *word)
{
    w->word = word;
    w->done = 0;
    w->thread = start(waiter_body, w);
}

// How many of these have returned.
CHECK_HELPER int waiters_done(struct waiter *waiters, int count)
{
    int done = 0;
    for (int i = 0; i < count; i++)
        done += waiters[i].done;
    return done;
}

// How many wait at this word: moving waiters to where they are counts them and changes nothing. (Moving them elsewhere would not
// do: on Linux a waiter that is moved in the instant in which it begins to wait may go back.)
CHECK_HELPER int waiting(void *word, int shared)
{
    int op = FUTEX_REQUEUE | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    return (int)futex(word, op, 0, (void *)(uintptr_t)INT_MAX, word, 0);
}

// Starts waiters one after the other: they wait at `word`, first come first, when this returns.
CHECK_HELPER void waiters_start(struct waiter *waiters, int count, void *word)
{
    for (int i = 0; i < count; i++) {
        int before = waiting(word, waiters[i].shared);
        waiter_start(&waiters[i], word);
        AWAIT(waiting(word, waiters[i].shared) > before);
    }
}

CHECK_HELPER void waiters_join(struct waiter *waiters, int count)
{
    for (int i = 0; i < count; i++)
        joined(waiters[i].thread);
}

#endif
