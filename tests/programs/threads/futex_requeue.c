// futex(2): REQUEUE and CMP_REQUEUE move waiters, and what they count; a moved
// waiter keeps its timeout, its bits and its place. One case per run.
#include "../common/parallel.h"

static word_t place, other;

static long requeue(int wake, int move, void *to)
{
    return futex(&place, PRIVATE(FUTEX_REQUEUE), (uint32_t)wake, (void *)(uintptr_t)(uint32_t)move, to, 0);
}
static long cmp_requeue(int wake, int move, void *to, uint32_t value)
{
    return futex(&place, PRIVATE(FUTEX_CMP_REQUEUE), (uint32_t)wake, (void *)(uintptr_t)(uint32_t)move, to, value);
}

static void nobody(void)
{
    check(requeue(1, 1, &other) == 0, "nobody to move");
    check(cmp_requeue(1, INT_MAX, &other, place) == 0, "nor with a comparison");
}

static void counts(void)
{
    struct waiter waiters[5] = {{0}};
    waiters_start(waiters, 5, &place);
    check(requeue(1, 2, &other) == 3, "one of five woken, two moved");
    AWAIT(waiters_done(waiters, 5) == 1);
    check(waiters[0].done, "the first was woken");
    check(futex_wake(&other, INT_MAX) == 2, "two are at the other word");
    AWAIT(waiters_done(waiters, 5) == 3);
    check(waiters[1].done && waiters[2].done, "the second and the third");
    check(futex_wake(&place, INT_MAX) == 2, "two stayed");
    waiters_join(waiters, 5);
}

static void cmp_counts(void)
{
    struct waiter waiters[6] = {{0}};
    waiters_start(waiters, 6, &place);
    check(cmp_requeue(2, 3, &other, 0) == 5, "two of six woken, three moved");
    AWAIT(waiters_done(waiters, 6) == 2);
    check(futex_wake(&other, INT_MAX) == 3 && futex_wake(&place, INT_MAX) == 1, "three there, one here");
    waiters_join(waiters, 6);
}

static void cmp_differs(void)
{
    struct waiter w = {0};
    waiters_start(&w, 1, &place);
    check_fails(cmp_requeue(1, 1, &other, 5), EAGAIN, "another value than expected");
    check(!w.done && futex_wake(&other, 1) == 0, "nobody woken, nobody moved");
    check(futex_wake(&place, 1) == 1, "the waiter is where it was");
    joined(w.thread);
}

static void only_move(void)
{
    struct waiter waiters[3] = {{0}};
    waiters_start(waiters, 3, &place);
    check(requeue(0, 1, &other) == 1 && requeue(0, INT_MAX, &other) == 2, "one moved, then the rest");
    check(waiters_done(waiters, 3) == 0, "nobody was woken");
    check(futex_wake(&place, INT_MAX) == 0 && futex_wake(&other, INT_MAX) == 3, "all are there");
    waiters_join(waiters, 3);
}

static void to_itself(void)
{
    struct waiter waiters[3] = {{0}};
    waiters_start(waiters, 3, &place);
    check(requeue(1, INT_MAX, &place) == 3, "one woken, two moved to where they were");
    check(futex_wake(&place, INT_MAX) == 2, "they are there");
    waiters_join(waiters, 3);
}

static void keeps_order(void)
{
    struct waiter waiters[4] = {{0}};
    waiters_start(waiters, 2, &other);
    waiters_start(waiters + 2, 2, &place);
    check(requeue(0, INT_MAX, &other) == 2, "two join two");
    for (int i = 0; i < 4; i++) {
        futex_wake(&other, 1);
        AWAIT(waiters_done(waiters, 4) == i + 1);
        check(waiters[i].done, "number %d is woken", i);
    }
    waiters_join(waiters, 4);
}

static void keeps_bits(void)
{
    struct waiter waiters[2] = {{.bits = 1}, {.bits = 2}};
    waiters_start(waiters, 2, &place);
    check(requeue(0, INT_MAX, &other) == 2, "two moved");
    check(futex(&other, PRIVATE(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 2) == 1, "one of them has bit 2");
    AWAIT(waiters[1].done);
    check(!waiters[0].done && futex_wake(&other, 1) == 1, "the other has not");
    waiters_join(waiters, 2);
}

static void keeps_timeout(void)
{
    struct timespec soon = timespec_of(50 * MS);
    struct waiter w = {.timeout = &soon};
    int64_t from = clock_ns(CLOCK_MONOTONIC);
    waiter_start(&w, &place);
    AWAIT(w.done || waiting(&place, 0) == 1);
    requeue(0, 1, &other);
    joined(w.thread);
    check(w.error == ETIMEDOUT && clock_ns(CLOCK_MONOTONIC) - from >= 50 * MS, "a moved waiter times out");
    check(futex_wake(&other, 1) == 0, "and is gone from the other word");
}

static void nothing(int signo) { (void)signo; }

static void takes_signals(void)
{
    struct waiter w = {0};
    catch_signal(SIGUSR1, nothing, 0);
    waiters_start(&w, 1, &place);
    check(requeue(0, 1, &other) == 1 && signal_thread(w.tid, SIGUSR1) == 0, "a moved waiter gets a signal");
    joined(w.thread);
    check(w.error == EINTR && futex_wake(&other, 1) == 0, "it is interrupted, and gone from there");
}

// A waiter that was moved and has to wait again does so at its first word.
static void restarts_at_home(void)
{
    struct waiter w = {0};
    catch_signal(SIGUSR1, nothing, SA_RESTART);
    waiters_start(&w, 1, &place);
    check(requeue(0, 1, &other) == 1 && waiting(&place, 0) == 0, "a waiter is moved");
    check(signal_thread(w.tid, SIGUSR1) == 0, "a signal with SA_RESTART");
    AWAIT(waiting(&place, 0) == 1);
    check(futex_wake(&other, 1) == 0, "it left the word that it was moved to");
    check(futex_wake(&place, 1) == 1, "and went back to its own");
    joined(w.thread);
    check(w.result == 0, "and was woken");
}

static void many(void)
{
    enum { WAITERS = 64 };
    static struct waiter waiters[WAITERS];
    memset(waiters, 0, sizeof waiters);
    for (int i = 0; i < WAITERS; i++)
        waiter_start(&waiters[i], &place);
    AWAIT(waiting(&place, 0) == WAITERS);
    check(requeue(10, 20, &other) == 30, "ten of %d woken, twenty moved", WAITERS);
    check(futex_wake(&place, INT_MAX) == 34 && futex_wake(&other, INT_MAX) == 20, "34 stayed, 20 are there");
    waiters_join(waiters, WAITERS);
    check(waiters_done(waiters, WAITERS) == WAITERS, "all are back");
}

static void wrong(void)
{
    check_fails(requeue(-1, 1, &other), EINVAL, "minus one to wake");
    check_fails(requeue(1, -1, &other), EINVAL, "minus one to move");
    check_fails(futex(&place, PRIVATE(FUTEX_REQUEUE), 1, (void *)1, (char *)&other + 2, 0), EINVAL, "to between words");
    check_fails(futex((char *)&place + 1, PRIVATE(FUTEX_REQUEUE), 1, (void *)1, &other, 0), EINVAL, "from between words");
    check_fails(futex((void *)8, PRIVATE(FUTEX_CMP_REQUEUE), 1, (void *)1, &other, 0), EFAULT, "comparing nowhere");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(nobody), CASE(counts), CASE(cmp_counts), CASE(cmp_differs), CASE(only_move), CASE(to_itself),
        CASE(keeps_order), CASE(keeps_bits), CASE(keeps_timeout), CASE(takes_signals), CASE(restarts_at_home),
        CASE(many), CASE(wrong),
    };
    return RUN_CASES(cases);
}
