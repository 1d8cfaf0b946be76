// futex(2) with priority inheritance: LOCK_PI, TRYLOCK_PI, UNLOCK_PI; who the
// word says is the owner, and that there are waiters. One case per run.
#include "../common/parallel.h"

static word_t lock;

static long lock_pi(const struct timespec *until) { return futex(&lock, PRIVATE(FUTEX_LOCK_PI), 0, until, NULL, 0); }
static long lock_pi2(const struct timespec *until) { return futex(&lock, PRIVATE(FUTEX_LOCK_PI2), 0, until, NULL, 0); }
static long trylock_pi(void) { return futex(&lock, PRIVATE(FUTEX_TRYLOCK_PI), 0, NULL, NULL, 0); }
static long unlock_pi(void) { return futex(&lock, PRIVATE(FUTEX_UNLOCK_PI), 0, NULL, NULL, 0); }

// A thread that takes the lock, says so, keeps it until told to go on, and releases it.
struct holder {
    pthread_t thread;
    _Atomic pid_t tid;
    atomic_int has, release;
    word_t seen;
    long locked, unlocked;
    int error;
};

static void *hold(void *arg)
{
    struct holder *h = arg;
    h->tid = own_tid();
    h->locked = lock_pi(NULL);
    h->error = h->locked == -1 ? errno : 0;
    h->seen = lock;
    h->has = 1;
    STAY_UNTIL(h->release);
    h->unlocked = h->locked == 0 ? unlock_pi() : 0;
    return NULL;
}
static void hold_start(struct holder *h)
{
    *h = (struct holder){0};
    h->thread = start(hold, h);
}
static void hold_end(struct holder *h)
{
    h->release = 1;
    joined(h->thread);
}
// What a word says of its owner.
static uint32_t owner(uint32_t word) { return word & FUTEX_TID_MASK; }

static void uncontended(void)
{
    check(lock_pi(NULL) == 0 && lock == (uint32_t)own_tid(), "a free lock is taken: the word is the owner's tid");
    check(unlock_pi() == 0 && lock == 0, "and released");
    check(trylock_pi() == 0 && lock == (uint32_t)own_tid(), "taken by a try");
    check(unlock_pi() == 0 && lock == 0, "and released");
    check(lock_pi2(NULL) == 0 && unlock_pi() == 0, "and by the second form");
}

static void contended(void)
{
    struct holder h;
    lock = (uint32_t)own_tid(); // taken without a call, as a library does
    hold_start(&h);
    AWAIT(lock & FUTEX_WAITERS);
    check(lock == ((uint32_t)own_tid() | FUTEX_WAITERS), "the word tells of a waiter");
    check(!h.has, "which waits");
    check(unlock_pi() == 0, "the lock is released");
    AWAIT(h.has);
    check(h.locked == 0 && owner(h.seen) == (uint32_t)h.tid, "and is the waiter's: its tid is in the word");
    check_fails(trylock_pi(), EAGAIN, "a try now");
    hold_end(&h);
    check(h.unlocked == 0 && lock == 0, "it is free at the end");
}

// Each of several gets it once, handed over by the one before.
static void several(void)
{
    enum { HOLDERS = 6 };
    struct holder h[HOLDERS];
    lock = (uint32_t)own_tid();
    for (int i = 0; i < HOLDERS; i++)
        hold_start(&h[i]);
    AWAIT(lock & FUTEX_WAITERS);
    check(unlock_pi() == 0, "released once");
    for (int turn = 0; turn < HOLDERS; turn++) {
        int got = -1;
        AWAIT(({
            for (int i = 0; i < HOLDERS; i++)
                if (h[i].has && !h[i].release)
                    got = i;
            got >= 0;
        }));
        int holding = 0;
        for (int i = 0; i < HOLDERS; i++)
            holding += h[i].has && !h[i].release;
        check(holding == 1 && owner(lock) == (uint32_t)h[got].tid, "one has it, and its tid is in the word");
        hold_end(&h[got]);
        check(h[got].unlocked == 0, "it is handed on");
    }
    check(lock == 0, "it is free at the end");
}

static void *add(void *arg)
{
    long *sum = arg;
    uint32_t tid = (uint32_t)own_tid();
    for (int i = 0; i < 1000; i++) {
        uint32_t expected = 0;
        if (!atomic_compare_exchange_strong(&lock, &expected, tid) && lock_pi(NULL) != 0)
            return "locking failed";
        ++*sum;
        if (i % 16 == 0)
            sched_yield();
        expected = tid;
        if (!atomic_compare_exchange_strong(&lock, &expected, 0) && unlock_pi() != 0)
            return "unlocking failed";
    }
    return NULL;
}
static void excludes(void)
{
    static long sum;
    pthread_t threads[4];
    sum = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = start(add, &sum);
    for (int i = 0; i < 4; i++) {
        const char *failure = joined(threads[i]);
        check(failure == NULL, "a thread is through %s", failure ? failure : "");
    }
    check(sum == 4000 && lock == 0, "4000 additions, and the lock is free");
}

static void deadlock(void)
{
    check(lock_pi(NULL) == 0, "taken");
    check_fails(lock_pi(NULL), EDEADLK, "taking it again");
    check_fails(trylock_pi(), EDEADLK, "trying it again");
    check(unlock_pi() == 0 && lock == 0, "released");
}

static void no_owner(void)
{
    // Above the greatest tid that Linux gives.
    lock = UINT32_C(0x3ffffff0);
    check_fails(lock_pi(NULL), ESRCH, "a lock of a thread that is not there");
    check_fails(trylock_pi(), ESRCH, "a try");
    lock = 0;
}

static void not_owner(void)
{
    struct holder h;
    hold_start(&h);
    AWAIT(h.has);
    check_fails(unlock_pi(), EPERM, "releasing another's lock");
    check(owner(lock) == (uint32_t)h.tid, "it is still the other's");
    hold_end(&h);
    check_fails(unlock_pi(), EPERM, "releasing a free lock");
}

static void times_out(void)
{
    struct holder h;
    hold_start(&h);
    AWAIT(h.has);
    int64_t from = clock_ns(CLOCK_REALTIME);
    struct timespec until = timespec_of(from + 20 * MS);
    check_fails(lock_pi(&until), ETIMEDOUT, "LOCK_PI has an absolute timeout in real time");
    check(clock_ns(CLOCK_REALTIME) - from >= 20 * MS, "not before 20 ms");
    from = clock_ns(CLOCK_MONOTONIC);
    until = timespec_of(from + 20 * MS);
    check_fails(lock_pi2(&until), ETIMEDOUT, "LOCK_PI2 one in monotonic time");
    check(clock_ns(CLOCK_MONOTONIC) - from >= 20 * MS, "not before 20 ms");
    until.tv_nsec = NS_PER_S;
    check_fails(lock_pi(&until), EINVAL, "a billion nanoseconds");
    check(owner(lock) == (uint32_t)h.tid, "it is still the other's");
    hold_end(&h);
    check(h.unlocked == 0 && lock_pi(NULL) == 0 && unlock_pi() == 0, "and can be had afterwards");
    lock = 0;
}

static atomic_int calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}
// Waiting for a lock is never interrupted for good.
static void signals(void)
{
    struct holder h;
    calls = 0;
    catch_signal(SIGUSR1, count, 0);
    check(lock_pi(NULL) == 0, "taken");
    hold_start(&h);
    AWAIT(lock & FUTEX_WAITERS);
    for (int i = 1; i <= 3; i++) {
        check(signal_thread(h.tid, SIGUSR1) == 0, "a signal for the waiter");
        AWAIT(calls == i);
    }
    check(!h.has, "it waits on");
    check(unlock_pi() == 0, "released");
    AWAIT(h.has);
    check(h.locked == 0, "and taken by the waiter");
    hold_end(&h);
}

static void wrong(void)
{
    char *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    static const int ops[] = {FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI};
    for (int i = 0; i < 3; i++) {
        check_fails(futex((char *)&lock + 2, PRIVATE(ops[i]), 0, NULL, NULL, 0), ops[i] == FUTEX_UNLOCK_PI ? EPERM : EINVAL,
                    "between words");
        check_fails(futex(NULL, PRIVATE(ops[i]), 0, NULL, NULL, 0), EFAULT, "null");
    }
    check_fails(futex(page, PRIVATE(FUTEX_LOCK_PI), 0, NULL, NULL, 0), EFAULT, "a word that can only be read");
    munmap(page, PAGE_BYTES);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(uncontended), CASE(contended), CASE(several), CASE(excludes), CASE(deadlock), CASE(no_owner),
        CASE(not_owner), CASE(times_out), CASE(signals), CASE(wrong),
    };
    return RUN_CASES(cases);
}
