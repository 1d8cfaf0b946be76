// Mutexes of all kinds, conditions and read-write locks: what excludes, what waits, what is refused. One case per run.
#include "in_threads.h"

static void *call(void *arg)
{
    int (*function)(void *) = *(int (**)(void *))arg;
    return (void *)(intptr_t)function(((void **)arg)[1]);
}
// What a call returns in another thread.
static int elsewhere(int (*function)(void *), void *arg)
{
    void *what[2];
    memcpy(what, &function, sizeof function);
    what[1] = arg;
    return (int)(intptr_t)joined(start(call, what));
}
static int lock_it(void *mutex) { return pthread_mutex_lock(mutex); }
static int try_it(void *mutex) { return pthread_mutex_trylock(mutex); }
static int unlock_it(void *mutex) { return pthread_mutex_unlock(mutex); }

// ---- Mutexes -------------------------------------------------------------

static pthread_mutex_t mutex;
static long sum;

static void mutex_make(int type, int robust, int protocol)
{
    pthread_mutexattr_t attr;
    need(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_settype(&attr, type) == 0, "attributes");
    need(pthread_mutexattr_setrobust(&attr, robust) == 0, "robust");
    need(pthread_mutexattr_setprotocol(&attr, protocol) == 0, "protocol");
    need(pthread_mutex_init(&mutex, &attr) == 0, "pthread_mutex_init");
}

static void *add(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        need(pthread_mutex_lock(&mutex) == 0, "lock");
        long was = sum;
        if (i % 32 == 0)
            sched_yield();
        sum = was + 1;
        need(pthread_mutex_unlock(&mutex) == 0, "unlock");
    }
    return arg;
}
static void excludes(void)
{
    sum = 0;
    in_threads(add);
    check(sum == THREADS * ROUNDS, "%d additions under a mutex", THREADS * ROUNDS);
}

static void mutex_normal(void)
{
    mutex_make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    excludes();
    pthread_mutex_lock(&mutex);
    check(pthread_mutex_trylock(&mutex) == EBUSY && elsewhere(try_it, &mutex) == EBUSY, "a try while it is held");
    pthread_mutex_unlock(&mutex);
    check(elsewhere(try_it, &mutex) == 0, "a try when it is free");
}

static void mutex_recursive(void)
{
    mutex_make(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    excludes();
    check(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == 0, "locked twice");
    check(pthread_mutex_unlock(&mutex) == 0 && elsewhere(try_it, &mutex) == EBUSY, "once unlocked it is held");
    check(pthread_mutex_unlock(&mutex) == 0, "unlocked twice");
    check(pthread_mutex_unlock(&mutex) == EPERM, "three times are too many");
}

static void mutex_errorcheck(void)
{
    mutex_make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    excludes();
    check(pthread_mutex_unlock(&mutex) == EPERM, "unlocking a free one");
    check(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK, "locking it twice");
    check(elsewhere(unlock_it, &mutex) == EPERM, "unlocking another's");
    check(pthread_mutex_unlock(&mutex) == 0, "unlocked");
}

static void mutex_timed(void)
{
    mutex_make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    pthread_mutex_lock(&mutex);
    struct timespec until = time_after(CLOCK_REALTIME, 20 * MS), far = time_after(CLOCK_REALTIME, 1000 * NS_PER_S);
    check(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT, "20 ms while it is held");
    check(clock_ns(CLOCK_REALTIME) >= until.tv_sec * NS_PER_S + until.tv_nsec, "not before");
    pthread_mutex_unlock(&mutex);
    check(pthread_mutex_timedlock(&mutex, &far) == 0, "when it is free");
}

static void mutex_robust(void)
{
    mutex_make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    excludes();
    check(elsewhere(lock_it, &mutex) == 0, "a thread ends with the mutex");
    check(pthread_mutex_lock(&mutex) == EOWNERDEAD, "the next gets it, and is told");
    check(pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0, "makes it good, and releases it");
    check(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0, "then it is as before");
    check(elsewhere(lock_it, &mutex) == 0 && pthread_mutex_lock(&mutex) == EOWNERDEAD, "another ends with it");
    check(pthread_mutex_unlock(&mutex) == 0, "this time it is not made good");
    check(pthread_mutex_lock(&mutex) == ENOTRECOVERABLE, "then it is lost");
}

static atomic_int holds, told;
static void *hold_and_end(void *arg)
{
    pthread_mutex_lock(&mutex);
    holds = 1;
    AWAIT(told);
    return arg;
}
static void *lock_waiting(void *arg)
{
    (void)arg;
    told = 1;
    int error = pthread_mutex_lock(&mutex);
    pthread_mutex_consistent(&mutex);
    pthread_mutex_unlock(&mutex);
    return (void *)(intptr_t)error;
}
// A waiter is woken when the owner ends.
static void robust_wakes(int protocol)
{
    mutex_make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, protocol);
    holds = told = 0;
    pthread_t holder = start(hold_and_end, NULL);
    AWAIT(holds);
    pthread_t waiter = start(lock_waiting, NULL);
    check(joined(waiter) == (void *)EOWNERDEAD, "who waits is told that the owner ended");
    joined(holder);
    check(pthread_mutex_lock(&mutex) == 0, "then it can be had");
}
static void mutex_robust_waiter(void) { robust_wakes(PTHREAD_PRIO_NONE); }
static void mutex_robust_pi(void) { robust_wakes(PTHREAD_PRIO_INHERIT); }

static void mutex_pi(void)
{
    mutex_make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    excludes();
    pthread_mutex_lock(&mutex);
    check(elsewhere(try_it, &mutex) == EBUSY, "a try while it is held");
    pthread_mutex_unlock(&mutex);
    struct timespec until = time_after(CLOCK_REALTIME, 1000 * NS_PER_S);
    check(pthread_mutex_timedlock(&mutex, &until) == 0, "taken in time");
    pthread_mutex_unlock(&mutex);
}

// ---- Conditions ----------------------------------------------------------

static pthread_cond_t cond;
static int turn, waiting_now, tokens, taken;

static void cond_make(clockid_t clock)
{
    pthread_condattr_t attr;
    need(pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, clock) == 0, "attributes");
    need(pthread_cond_init(&cond, &attr) == 0, "pthread_cond_init");
    pthread_mutex_init(&mutex, NULL);
    turn = waiting_now = tokens = taken = 0;
}

static void *take_token(void *arg)
{
    pthread_mutex_lock(&mutex);
    waiting_now++;
    while (tokens == 0)
        pthread_cond_wait(&cond, &mutex);
    tokens--;
    taken++;
    pthread_mutex_unlock(&mutex);
    return arg;
}
static int locked_value(int *value)
{
    pthread_mutex_lock(&mutex);
    int now = *value;
    pthread_mutex_unlock(&mutex);
    return now;
}
static void give_tokens(int all)
{
    pthread_t threads[6];
    cond_make(CLOCK_REALTIME);
    for (int i = 0; i < 6; i++)
        threads[i] = start(take_token, NULL);
    AWAIT(locked_value(&waiting_now) == 6);
    for (int given = 0; given < 6; given += all ? 6 : 1) {
        pthread_mutex_lock(&mutex);
        tokens += all ? 6 : 1;
        (all ? pthread_cond_broadcast : pthread_cond_signal)(&cond);
        pthread_mutex_unlock(&mutex);
        AWAIT(locked_value(&taken) == given + (all ? 6 : 1));
        check(locked_value(&tokens) == 0, "what was given is taken");
    }
    for (int i = 0; i < 6; i++)
        joined(threads[i]);
    check(pthread_cond_destroy(&cond) == 0, "nobody waits any more");
}
static void cond_signal(void) { give_tokens(0); }
static void cond_broadcast(void) { give_tokens(1); }

static void cond_timed(clockid_t clock)
{
    cond_make(clock);
    pthread_mutex_lock(&mutex);
    int64_t end = clock_ns(clock) + 20 * MS;
    struct timespec until = timespec_of(end);
    int result;
    do // may wake for no reason
        result = pthread_cond_timedwait(&cond, &mutex, &until);
    while (result == 0);
    check(result == ETIMEDOUT && clock_ns(clock) >= end, "nobody signals: it times out, not before 20 ms");
    check(pthread_mutex_trylock(&mutex) == EBUSY, "the mutex is held again");
    pthread_mutex_unlock(&mutex);
}
static void cond_timed_realtime(void) { cond_timed(CLOCK_REALTIME); }
static void cond_timed_monotonic(void) { cond_timed(CLOCK_MONOTONIC); }

static void *take_turns(void *arg)
{
    int own = (int)(intptr_t)arg;
    for (int round = 0; round < 100; round++) {
        pthread_mutex_lock(&mutex);
        while (turn % THREADS != own)
            pthread_cond_wait(&cond, &mutex);
        turn++;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static void cond_turns(void)
{
    cond_make(CLOCK_REALTIME);
    in_threads(take_turns);
    check(turn == 100 * THREADS, "%d threads in turn, 100 times", THREADS);
}

// ---- Read-write locks ----------------------------------------------------

static pthread_rwlock_t rwlock;
static int pair[2];
static atomic_int readers, torn;

static void *read_or_write(void *arg)
{
    int writes = (intptr_t)arg == 0;
    for (int i = 0; i < ROUNDS; i++) {
        need((writes ? pthread_rwlock_wrlock : pthread_rwlock_rdlock)(&rwlock) == 0, "lock");
        if (writes) {
            pair[0]++;
            if (i % 32 == 0)
                sched_yield();
            pair[1]++;
        }
        torn += pair[0] != pair[1];
        pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}
static void rwlock_excludes(void)
{
    pthread_rwlock_init(&rwlock, NULL);
    pair[0] = pair[1] = torn = 0;
    in_threads(read_or_write);
    check(pair[0] == ROUNDS && torn == 0, "readers never see half of what a writer does");
}

static void *read_together(void *arg)
{
    pthread_rwlock_rdlock(&rwlock);
    readers++;
    AWAIT(readers >= THREADS);
    pthread_rwlock_unlock(&rwlock);
    return arg;
}
static int try_read(void *lock) { return pthread_rwlock_tryrdlock(lock); }
static int try_write(void *lock) { return pthread_rwlock_trywrlock(lock); }
static void rwlock_shares(void)
{
    pthread_rwlock_init(&rwlock, NULL);
    readers = 0;
    in_threads(read_together);
    check(readers == THREADS, "%d readers hold it together", THREADS);
    pthread_rwlock_rdlock(&rwlock);
    check(elsewhere(try_write, &rwlock) == EBUSY, "no writer while one reads");
    pthread_rwlock_unlock(&rwlock);
    pthread_rwlock_wrlock(&rwlock);
    check(elsewhere(try_read, &rwlock) == EBUSY && elsewhere(try_write, &rwlock) == EBUSY, "nobody while one writes");
    pthread_rwlock_unlock(&rwlock);
}
static int read_soon(void *lock)
{
    struct timespec until = time_after(CLOCK_REALTIME, 10 * MS);
    return pthread_rwlock_timedrdlock(lock, &until);
}
static int write_soon(void *lock)
{
    struct timespec until = time_after(CLOCK_REALTIME, 10 * MS);
    return pthread_rwlock_timedwrlock(lock, &until);
}
static void rwlock_timed(void)
{
    pthread_rwlock_init(&rwlock, NULL);
    pthread_rwlock_wrlock(&rwlock);
    check(elsewhere(read_soon, &rwlock) == ETIMEDOUT, "a reader times out");
    check(elsewhere(write_soon, &rwlock) == ETIMEDOUT, "a writer times out");
    pthread_rwlock_unlock(&rwlock);
    check(elsewhere(write_soon, &rwlock) == 0, "it can be had when it is free");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(mutex_normal), CASE(mutex_recursive), CASE(mutex_errorcheck), CASE(mutex_timed), CASE(mutex_robust),
        CASE(mutex_robust_waiter), CASE(mutex_robust_pi), CASE(mutex_pi), CASE(cond_signal), CASE(cond_broadcast),
        CASE(cond_timed_realtime), CASE(cond_timed_monotonic), CASE(cond_turns), CASE(rwlock_excludes), CASE(rwlock_shares),
        CASE(rwlock_timed),
    };
    return RUN_CASES(cases);
}
