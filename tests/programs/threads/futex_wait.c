// futex(2): WAIT and WAKE with and without bits, timeouts of both kinds and
// clocks, signals, and words that are no words. One case per run.
#include "../common/parallel.h"

static word_t word;

static void mismatch(void)
{
    struct timespec soon = timespec_of(MS);
    word = 5;
    check_fails(futex_wait(&word, 6), EAGAIN, "waiting for another value");
    check_fails(futex(&word, FUTEX_WAIT, 6, &soon, NULL, 0), EAGAIN, "with a timeout, shared");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT_BITSET), 6, NULL, NULL, 1), EAGAIN, "with bits");
    word = 0;
}

static void wake_nobody(void)
{
    check(futex_wake(&word, 1) == 0 && futex_wake(&word, INT_MAX) == 0, "nobody is woken privately");
    check(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0, "nor shared");
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), 1, NULL, NULL, 1) == 0, "nor by bits");
}

static void wake_one_by_one(void)
{
    struct waiter waiters[4] = {{0}};
    for (int i = 0; i < 4; i++)
        waiter_start(&waiters[i], &word);
    for (int i = 1; i <= 4; i++) {
        long woken = 0;
        AWAIT((woken = futex_wake(&word, 1)) != 0);
        AWAIT(waiters_done(waiters, 4) >= i);
        check(woken == 1 && waiters_done(waiters, 4) == i, "a wake of one wakes one, %d are done", i);
    }
    check(futex_wake(&word, 1) == 0, "then nobody is left");
    waiters_join(waiters, 4);
    for (int i = 0; i < 4; i++)
        check(waiters[i].result == 0, "its wait returned 0");
}

// Starts `count` waiters, wakes `wake` of them, then the rest.
static void wake_some(int count, int wake)
{
    struct waiter waiters[16] = {{0}};
    waiters_start(waiters, count, &word);
    check(futex_wake(&word, wake) == wake, "%d of %d are woken", wake, count);
    AWAIT(waiters_done(waiters, count) >= wake);
    check(futex_wake(&word, INT_MAX) == count - wake, "then the other %d", count - wake);
    waiters_join(waiters, count);
    check(futex_wake(&word, INT_MAX) == 0, "nobody is left");
}

static void wake_two_of_five(void) { wake_some(5, 2); }
static void wake_all(void) { wake_some(16, 16); }

// First come, first woken.
static void wake_order(void)
{
    struct waiter waiters[6] = {{0}};
    waiters_start(waiters, 6, &word);
    for (int i = 0; i < 6; i++) {
        check(futex_wake(&word, 1) == 1, "one is woken");
        AWAIT(waiters_done(waiters, 6) == i + 1);
        check(waiters[i].done, "it is number %d", i);
    }
    waiters_join(waiters, 6);
}

// A value that changes before the wait begins is not missed: no wake-up gets lost.
static void *answer(void *arg)
{
    for (uint32_t i = 1; i < (uintptr_t)arg; i += 2) {
        while (word != i)
            futex_wait(&word, i - 1);
        word = i + 1;
        futex_wake(&word, 1);
    }
    return NULL;
}
static void ping_pong(void)
{
    enum { ROUNDS = 400 };
    word = 0;
    pthread_t thread = start(answer, (void *)(uintptr_t)ROUNDS);
    for (uint32_t i = 0; i < ROUNDS; i += 2) {
        word = i + 1;
        futex_wake(&word, 1);
        while (word == i + 1)
            futex_wait(&word, i + 1);
    }
    joined(thread);
    check(word == ROUNDS, "%d handed over", ROUNDS);
    word = 0;
}

// ---- Bits ----------------------------------------------------------------

static void bitset_pick(void)
{
    struct waiter waiters[3] = {{.bits = 1}, {.bits = 2}, {.bits = 6}};
    waiters_start(waiters, 3, &word);
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 8) == 0, "bits that nobody has wake nobody");
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 4) == 1, "one has bit 4");
    AWAIT(waiters[2].done);
    check(!waiters[0].done && !waiters[1].done, "only that was woken");
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 3) == 2, "two have bits 1 or 2");
    waiters_join(waiters, 3);
}

static void bitset_plain(void)
{
    struct waiter waiters[2] = {{.bits = 0x80000000}, {.bits = 0}};
    waiters_start(waiters, 2, &word);
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), INT_MAX, NULL, NULL, 0x40000000) == 1,
          "a plain waiter has all bits");
    AWAIT(waiters[1].done);
    check(!waiters[0].done && futex_wake(&word, INT_MAX) == 1, "a plain wake means all bits");
    waiters_join(waiters, 2);
}

static void bitset_count(void)
{
    struct waiter waiters[4] = {{.bits = 1}, {.bits = 2}, {.bits = 1}, {.bits = 1}};
    waiters_start(waiters, 4, &word);
    check(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), 2, NULL, NULL, 1) == 2, "two of three with bit 1");
    AWAIT(waiters_done(waiters, 4) == 2);
    check(waiters[0].done && waiters[2].done, "those that came first");
    check(futex_wake(&word, INT_MAX) == 2, "two are left");
    waiters_join(waiters, 4);
}

static void bitset_zero(void)
{
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT_BITSET), 0, NULL, NULL, 0), EINVAL, "waiting for no bit");
    check_fails(futex(&word, PRIVATE(FUTEX_WAKE_BITSET), 1, NULL, NULL, 0), EINVAL, "waking by no bit");
}

// ---- Timeouts ------------------------------------------------------------

// A wait that is not ended: it times out, and not before its time.
static void times_out(int op, clockid_t clock, int absolute, const char *what)
{
    int64_t from = clock_ns(clock);
    struct timespec timeout = timespec_of((absolute ? from : 0) + 20 * MS);
    check_fails(futex(&word, PRIVATE(op), 0, &timeout, NULL, FUTEX_BITSET_MATCH_ANY), ETIMEDOUT, what);
    check(clock_ns(clock) - from >= 20 * MS, "not before 20 ms");
}

static void timeout_relative(void) { times_out(FUTEX_WAIT, CLOCK_MONOTONIC, 0, "relative"); }
static void timeout_monotonic(void) { times_out(FUTEX_WAIT_BITSET, CLOCK_MONOTONIC, 1, "absolute, monotonic"); }
static void timeout_realtime(void)
{
    times_out(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME, 1, "absolute, real time");
}

static void timeout_past(void)
{
    struct timespec zero = {0}, past = {.tv_sec = 1};
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT), 0, &zero, NULL, 0), ETIMEDOUT, "no time at all");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT_BITSET), 0, &past, NULL, 1), ETIMEDOUT, "monotonic past");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT_BITSET) | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 1), ETIMEDOUT,
                "past in real time");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT_BITSET), 1, &past, NULL, 1), EAGAIN, "the value is looked at first");
}

static void timeout_invalid(void)
{
    struct timespec many = {.tv_nsec = NS_PER_S}, few = {.tv_nsec = -1}, negative = {.tv_sec = -1};
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT), 0, &many, NULL, 0), EINVAL, "a billion nanoseconds");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT), 0, &few, NULL, 0), EINVAL, "minus one nanosecond");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT), 0, &negative, NULL, 0), EINVAL, "minus one second");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT), 0, (void *)8, NULL, 0), EFAULT, "a timeout nowhere");
}

static void timeout_far(void)
{
    struct timespec far = {.tv_sec = LONG_MAX};
    struct waiter waiters[2] = {{.timeout = &far}, {.timeout = &far, .bits = 1}};
    waiters_start(waiters, 2, &word);
    check(futex_wake(&word, 2) == 2, "timeouts beyond all time are waited for");
    waiters_join(waiters, 2);
    check(waiters[0].result == 0 && waiters[1].result == 0, "and their waiters woken");
}

// Of waiters with different timeouts each has its own.
static void timeout_several(void)
{
    struct timespec times[3];
    struct waiter waiters[4] = {{0}};
    for (int i = 0; i < 3; i++) {
        times[i] = timespec_of((3 - i) * 10 * MS);
        waiters[i].timeout = &times[i];
    }
    for (int i = 0; i < 4; i++)
        waiter_start(&waiters[i], &word);
    AWAIT(waiters_done(waiters, 3) == 3);
    for (int i = 0; i < 3; i++)
        check(waiters[i].error == ETIMEDOUT, "a waiter timed out");
    check(!waiters[3].done, "the one without a timeout still waits");
    AWAIT(futex_wake(&word, 1) == 1);
    waiters_join(waiters, 4);
    check(waiters[3].result == 0, "until it is woken");
}

// ---- Signals -------------------------------------------------------------

static atomic_int calls;
static void count(int signo)
{
    (void)signo;
    calls++;
}

static void interrupted(int flags, const struct timespec *timeout, const char *what)
{
    struct waiter w = {.timeout = timeout};
    calls = 0;
    catch_signal(SIGUSR1, count, flags);
    waiters_start(&w, 1, &word);
    check(signal_thread(w.tid, SIGUSR1) == 0, "a signal for the waiter");
    joined(w.thread);
    check(w.result == -1 && w.error == EINTR && calls == 1, "%s", what);
    check(futex_wake(&word, 1) == 0, "it does not wait any more");
}

static void signal_interrupts(void) { interrupted(0, NULL, "interrupted"); }
static void signal_timed(void)
{
    struct timespec far = {.tv_sec = 1000};
    interrupted(SA_RESTART, &far, "a wait with a timeout is interrupted even by SA_RESTART");
}

static void signal_restarts(void)
{
    struct waiter w = {0};
    calls = 0;
    catch_signal(SIGUSR1, count, SA_RESTART);
    waiter_start(&w, &word);
    AWAIT(w.tid != 0);
    for (int i = 1; i <= 10; i++) {
        check(signal_thread(w.tid, SIGUSR1) == 0, "a signal for the waiter");
        AWAIT(calls == i);
    }
    check(!w.done, "it waits on");
    AWAIT(futex_wake(&word, 1) == 1);
    joined(w.thread);
    check(w.result == 0, "until it is woken");
}

// When a wait is begun again its value may have changed: then it ends with EAGAIN.
static void signal_changed(void)
{
    struct waiter w = {0};
    calls = 0;
    catch_signal(SIGUSR1, count, SA_RESTART);
    waiter_start(&w, &word);
    AWAIT(waiting(&word, 0) == 1);
    word = 1;
    check(signal_thread(w.tid, SIGUSR1) == 0, "a signal for the waiter");
    joined(w.thread);
    check(w.result == -1 && w.error == EAGAIN && calls == 1, "the value had changed when it waited again");
    word = 0;
}

static void signal_blocked(void)
{
    struct waiter w = {0};
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    calls = 0;
    catch_signal(SIGUSR1, count, 0);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    waiters_start(&w, 1, &word);
    check(signal_thread(w.tid, SIGUSR1) == 0, "a signal that the waiter blocks");
    check(futex_wake(&word, 1) == 1, "does not end its wait");
    joined(w.thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(w.result == 0 && calls == 0, "nor calls the handler");
}

// ---- Words that are none -------------------------------------------------

static void misaligned(void)
{
    char *middle = (char *)&word + 1;
    static const int ops[] = {FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET};
    for (int i = 0; i < 4; i++) {
        check_fails(futex(middle, ops[i], 0, NULL, NULL, 1), EINVAL, "a word between words, shared");
        check_fails(futex(middle, PRIVATE(ops[i]), 0, NULL, NULL, 1), EINVAL, "private");
    }
}

static void *unmapped_page(void)
{
    char *page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED && munmap(page, PAGE_BYTES) == 0, "a page that is not there");
    return page;
}

static void unmapped(void)
{
    void *page = unmapped_page();
    check_fails(futex_wait(page, 0), EFAULT, "waiting at a page that is not there");
    check_fails(futex(page, FUTEX_WAIT, 0, NULL, NULL, 0), EFAULT, "shared");
    check_fails(futex_wait(NULL, 0), EFAULT, "at null");
    check(futex_wake(page, 1) == 0 && futex_wake(NULL, 1) == 0, "waking there wakes nobody");
    check_fails(futex(page, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT, "but not shared");
}

static void no_access(void)
{
    word_t *page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    check_fails(futex_wait(page, 0), EFAULT, "waiting at a page without access");
    check(futex_wake(page, 1) == 0, "waking there wakes nobody");
    munmap(page, PAGE_BYTES);
}

static void read_only(void)
{
    struct timespec soon = timespec_of(MS);
    word_t *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    *page = 7;
    need(mprotect(page, PAGE_BYTES, PROT_READ) == 0, "mprotect");
    check_fails(futex_wait(page, 0), EAGAIN, "a value in a page that can only be read is read");
    check_fails(futex(page, PRIVATE(FUTEX_WAIT), 7, &soon, NULL, 0), ETIMEDOUT, "and waited for");
    munmap(page, PAGE_BYTES);
}

static void kernel_address(void)
{
    static const uintptr_t places[] = {UINT64_C(0xffff800000000000), UINT64_C(0x0000800000000000),
                                       UINT64_C(0xfffffffffffffffc), UINT64_C(0x8000000000000000)};
    for (int i = 0; i < 4; i++) {
        void *at = (void *)places[i];
        check_fails(futex_wait(at, 0), EFAULT, "waiting where no program can be");
        check_fails(futex_wake(at, 1), EFAULT, "waking");
        check_fails(futex(at, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT, "waking, shared");
        check_fails(futex(&word, PRIVATE(FUTEX_REQUEUE), 1, (void *)1, at, 0), EFAULT, "moving waiters there");
    }
}

static void no_such_operation(void)
{
    check_fails(futex(&word, PRIVATE(99), 0, NULL, NULL, 0), ENOSYS, "operation 99");
    check_fails(futex(&word, FUTEX_FD, 0, NULL, NULL, 0), ENOSYS, "FUTEX_FD");
    check_fails(futex(&word, PRIVATE(FUTEX_WAKE) | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0), ENOSYS,
                "a clock for an operation without time");
    check_fails(futex(&word, PRIVATE(FUTEX_WAIT) | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0), ENOSYS,
                "the other clock for a relative time");
}

// ---- Private and shared --------------------------------------------------

static void shared_memory(void)
{
    word_t *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    struct waiter w = {.shared = 1};
    waiter_start(&w, page);
    AWAIT(futex(page, FUTEX_WAKE, 1, NULL, NULL, 0) == 1);
    joined(w.thread);
    check(w.result == 0, "woken in shared memory");
    struct waiter private = {0};
    waiter_start(&private, page);
    AWAIT(futex_wake(page, 1) == 1);
    joined(private.thread);
    check(private.result == 0, "and there by private operations");
    munmap(page, PAGE_BYTES);
}

// A waiter by one flavour is not woken by the other.
static void flavours_differ(void)
{
    struct waiter w = {.shared = 1};
    waiter_start(&w, &word);
    AWAIT(waiting(&word, 1) == 1);
    check(futex_wake(&word, 1) == 0, "a private wake does not reach a shared waiter");
    check(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) == 1, "a shared one does");
    joined(w.thread);
    check(w.result == 0, "it was woken");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(mismatch), CASE(wake_nobody), CASE(wake_one_by_one), CASE(wake_two_of_five), CASE(wake_all),
        CASE(wake_order), CASE(ping_pong), CASE(bitset_pick), CASE(bitset_plain), CASE(bitset_count),
        CASE(bitset_zero), CASE(timeout_relative), CASE(timeout_monotonic), CASE(timeout_realtime),
        CASE(timeout_past), CASE(timeout_invalid), CASE(timeout_far),
        CASE(timeout_several), CASE(signal_interrupts), CASE(signal_timed), CASE(signal_restarts),
        CASE(signal_changed), CASE(signal_blocked), CASE(misaligned), CASE(unmapped), CASE(no_access),
        CASE(read_only), CASE(kernel_address), CASE(no_such_operation), CASE(shared_memory),
        CASE(flavours_differ),
    };
    return RUN_CASES(cases);
}
