// futex_waitv(2): one wait for up to 128 words. One case per run.
#include "../common/parallel.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
enum { SIZE_U32 = 2, MOST = 128 };
struct entry {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static word_t words[MOST + 1];

static long waitv(const struct entry *entries, unsigned count, const struct timespec *until, clockid_t clock)
{
    return syscall(SYS_futex_waitv, entries, count, 0, until, clock);
}
static void fill(struct entry *entries, int count, uint32_t flags)
{
    memset(words, 0, sizeof words);
    for (int i = 0; i < count; i++)
        entries[i] = (struct entry){.address = (uintptr_t)&words[i], .flags = SIZE_U32 | flags};
}

struct vector_waiter {
    struct entry entries[MOST];
    int count;
    _Atomic pid_t tid;
    long result;
    int error;
};
static void *wait_for_any(void *arg)
{
    struct vector_waiter *w = arg;
    w->tid = own_tid();
    w->result = waitv(w->entries, (unsigned)w->count, NULL, CLOCK_MONOTONIC);
    w->error = w->result == -1 ? errno : 0;
    return NULL;
}

// Waits for so many words; this one is woken, and its index returned.
static void woken_by(int count, int index, uint32_t flags)
{
    static struct vector_waiter w;
    w.count = count;
    fill(w.entries, count, flags);
    pthread_t thread = start(wait_for_any, &w);
    AWAIT(futex(&words[index], FUTEX_WAKE | (int)flags, 1, NULL, NULL, 0) == 1);
    joined(thread);
    check(w.result == index, "of %d words the one with index %d was woken", count, index);
    long left = 0;
    for (int i = 0; i < count; i++)
        left += futex(&words[i], FUTEX_WAKE | (int)flags, 1, NULL, NULL, 0);
    check(left == 0, "nobody waits at the others any more");
}

static void one(void) { woken_by(1, 0, FUTEX_PRIVATE_FLAG); }
static void first_of_two(void) { woken_by(2, 0, FUTEX_PRIVATE_FLAG); }
static void last_of_many(void) { woken_by(MOST, MOST - 1, FUTEX_PRIVATE_FLAG); }
static void middle_of_many(void) { woken_by(MOST, 63, FUTEX_PRIVATE_FLAG); }
static void shared(void) { woken_by(5, 3, 0); }

static void mismatch(void)
{
    struct entry entries[3];
    fill(entries, 3, FUTEX_PRIVATE_FLAG);
    words[2] = 1;
    check_fails(waitv(entries, 3, NULL, CLOCK_MONOTONIC), EAGAIN, "one has another value");
    check(futex_wake(&words[0], 1) == 0, "nobody waits at the others");
}

static void times_out(void)
{
    struct entry entries[2];
    fill(entries, 2, FUTEX_PRIVATE_FLAG);
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
    for (int i = 0; i < 2; i++) {
        int64_t from = clock_ns(clocks[i]);
        struct timespec until = timespec_of(from + 20 * MS);
        check_fails(waitv(entries, 2, &until, clocks[i]), ETIMEDOUT, i ? "real time" : "monotonic time");
        check(clock_ns(clocks[i]) - from >= 20 * MS, "not before 20 ms");
    }
}

static void nothing(int signo) { (void)signo; }
static void interrupted(void)
{
    static struct vector_waiter w;
    w.count = 2;
    w.tid = 0;
    fill(w.entries, 2, FUTEX_PRIVATE_FLAG);
    catch_signal(SIGUSR1, nothing, 0);
    pthread_t thread = start(wait_for_any, &w);
    AWAIT(waiting(&words[1], 0) == 1);
    check(signal_thread(w.tid, SIGUSR1) == 0, "a signal for the waiter");
    joined(thread);
    check(w.error == EINTR && futex_wake(&words[1], 1) == 0, "interrupted, and gone from all words");
}

static void wrong(void)
{
    struct entry entries[MOST + 1];
    struct timespec many = {.tv_nsec = NS_PER_S};
    fill(entries, MOST + 1, FUTEX_PRIVATE_FLAG);
    check_fails(waitv(entries, 0, NULL, CLOCK_MONOTONIC), EINVAL, "no words");
    check_fails(waitv(entries, MOST + 1, NULL, CLOCK_MONOTONIC), EINVAL, "129 words");
    check_fails(waitv(NULL, 1, NULL, CLOCK_MONOTONIC), EINVAL, "a list at null");
    check_fails(waitv((void *)8, 1, NULL, CLOCK_MONOTONIC), EFAULT, "a list nowhere");
    check_fails(syscall(SYS_futex_waitv, entries, 1, 1, NULL, 0), EINVAL, "a flag");
    check_fails(waitv(entries, 1, &many, CLOCK_MONOTONIC), EINVAL, "a billion nanoseconds");
    check_fails(waitv(entries, 1, &many, 99), EINVAL, "an unknown clock");
    entries[0].flags = FUTEX_PRIVATE_FLAG;
    check_fails(waitv(entries, 1, NULL, CLOCK_MONOTONIC), EINVAL, "a word without its size");
    entries[0].flags = SIZE_U32 | 0x40;
    check_fails(waitv(entries, 1, NULL, CLOCK_MONOTONIC), EINVAL, "an unknown flag of a word");
    entries[0].flags = SIZE_U32;
    entries[0].reserved = 1;
    check_fails(waitv(entries, 1, NULL, CLOCK_MONOTONIC), EINVAL, "what must be zero");
    entries[1].address++;
    check_fails(waitv(entries + 1, 1, NULL, CLOCK_MONOTONIC), EINVAL, "between words");
    entries[2].address = 0;
    check_fails(waitv(entries + 2, 1, NULL, CLOCK_MONOTONIC), EFAULT, "a word at null");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(one), CASE(first_of_two), CASE(last_of_many), CASE(middle_of_many), CASE(shared), CASE(mismatch),
        CASE(times_out), CASE(interrupted), CASE(wrong),
    };
    return RUN_CASES(cases);
}
