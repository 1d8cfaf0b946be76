// pthread_create, join, detach and exit: many threads, one after the other and
// at once, threads that make threads, what they return. One case per run.
#include "../common/parallel.h"

static atomic_int running, released, ended;

static void *same(void *arg) { return arg; }
static void *by_exit(void *arg)
{
    pthread_exit((char *)arg + 1);
    return NULL;
}

static void results(void)
{
    check(joined(start(same, (void *)42)) == (void *)42, "what a thread returns");
    check(joined(start(by_exit, (void *)42)) == (void *)43, "what it gives to pthread_exit");
    check(joined(start(same, PTHREAD_CANCELED)) == PTHREAD_CANCELED, "any value");
}

static void *note_self(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return NULL;
}
static void identity(void)
{
    pthread_t own, thread = start(note_self, &own);
    joined(thread);
    check(pthread_equal(own, thread), "pthread_self is what pthread_create stored");
    check(!pthread_equal(thread, pthread_self()), "and another's is not");
}

static void *tids(void *arg)
{
    pid_t *pair = arg;
    pair[0] = getpid();
    pair[1] = own_tid();
    return NULL;
}
static void process_of_threads(void)
{
    pid_t pairs[8][2];
    int same_process = 1;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        threads[i] = start(tids, pairs[i]);
    for (int i = 0; i < 8; i++)
        joined(threads[i]);
    for (int i = 0; i < 8; i++)
        same_process &= pairs[i][0] == getpid();
    check(same_process && own_tid() == getpid(), "one pid, which is the main thread's tid");
}

static void *stay(void *arg)
{
    pid_t *tid = arg;
    *tid = own_tid();
    running++;
    STAY_UNTIL(released);
    return tid;
}

static void *own_number(void *arg)
{
    *(pid_t *)arg = own_tid();
    return NULL;
}

// Regression: the next thread had the number of the one that had just ended, and then the fifth after it.
static void not_again(void)
{
    enum { LAST = 10 };
    int repeats = 0;
    pid_t tid, last[LAST] = {0};
    for (int i = 0; i < 51; i++) {
        pthread_t thread = start(own_number, &tid);
        need(pthread_join(thread, NULL) == 0, "pthread_join");
        for (int j = 0; j < LAST; j++)
            repeats += tid == last[j];
        last[i % LAST] = tid;
    }
    check(repeats == 0, "a number is none of the next %d threads', %d times", LAST, repeats);
}

// So many threads at once, each with a tid of its own.
static void at_once(int count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pid_t *all = calloc((size_t)count, sizeof *all);
    int made = 0, distinct = 1;
    running = released = 0;
    for (; made < count; made++)
        if (try_start(&threads[made], 16 << 10, stay, &all[made]) != 0)
            break;
    check(made == count, "%d threads are made", count);
    AWAIT(running == made);
    for (int i = 0; i < made; i++)
        for (int k = 0; k < i; k++)
            distinct &= all[i] != all[k];
    check(distinct, "all run at the same time, each with its own tid");
    released = 1;
    int right = 1;
    for (int i = 0; i < made; i++)
        right &= joined(threads[i]) == &all[i];
    check(right, "all are joined");
    free(threads);
    free(all);
}
static void *wait_for_release(void *arg)
{
    running++;
    while (!released)
        futex_wait(&released, 0);
    return arg;
}
// They sleep: with so many none should have to wait for those that only yield.
static void asleep_at_once(int count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    int made = 0, right = 1;
    running = released = 0;
    for (; made < count; made++)
        if (try_start(&threads[made], 16 << 10, wait_for_release, &threads[made]) != 0)
            break;
    check(made == count, "%d threads are made", count);
    AWAIT(running == made);
    released = 1;
    futex_wake(&released, INT_MAX);
    for (int i = 0; i < made; i++)
        right &= joined(threads[i]) == &threads[i];
    check(right, "all have slept, woken and are joined");
    free(threads);
}
static void at_once_16(void) { at_once(16); }
static void at_once_200(void) { asleep_at_once(200); }
static void at_once_1000(void) { asleep_at_once(1000); }

static void one_after_another(void)
{
    int right = 1;
    for (intptr_t i = 0; i < 1000; i++) {
        pthread_t thread;
        need(try_start(&thread, 16 << 10, same, (void *)i) == 0, "pthread_create");
        right &= joined(thread) == (void *)i;
    }
    check(right, "1000 threads, each made when the one before had been joined");
}

static void *nest(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0)
        return (void *)1;
    return (char *)joined(start(nest, (void *)(depth - 1))) + 1;
}
static void nested(void) { check(joined(start(nest, (void *)30)) == (void *)31, "31 threads, each made by the last"); }

// A tree of threads whose leaves are counted.
static void *split(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0)
        return (void *)1;
    pthread_t left = start(split, (void *)(depth - 1)), right = start(split, (void *)(depth - 1));
    intptr_t leaves = (intptr_t)joined(left);
    return (void *)(leaves + (intptr_t)joined(right));
}
static void tree(void) { check(split((void *)5) == (void *)32, "a tree of 62 threads has 32 leaves"); }

static void *end_later(void *arg)
{
    STAY_UNTIL(released);
    ended++;
    return arg;
}
static void detached(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    released = ended = 0;
    need(pthread_attr_init(&attr) == 0, "pthread_attr_init");
    check(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0, "threads are to be detached");
    pthread_attr_setstacksize(&attr, SMALL_STACK_BYTES);
    for (int i = 0; i < 4; i++)
        check(pthread_create(&thread, &attr, end_later, NULL) == 0, "one is made");
    check(pthread_detach(start(end_later, NULL)) == 0, "one is detached when it runs");
    released = 1;
    AWAIT(ended == 5);
    check(ended == 5, "all have run");
}

static void *join_other(void *arg) { return joined(*(pthread_t *)arg); }
// Not only its maker may join a thread.
static void joined_by_another(void)
{
    released = 0;
    pthread_t thread = start(end_later, (void *)7);
    pthread_t other = start(join_other, &thread);
    released = 1;
    check(joined(other) == (void *)7, "a thread joins one that it did not make");
}

static void join_late(void)
{
    ended = 0;
    released = 1;
    pthread_t thread = start(end_later, (void *)9);
    AWAIT(ended == 1);
    check(joined(thread) == (void *)9, "a thread that has ended can be joined");
}

static void join_tries(void)
{
    void *result;
    released = 0;
    pthread_t thread = start(end_later, (void *)5);
    check(pthread_tryjoin_np(thread, &result) == EBUSY, "a try while it runs");
    struct timespec until = time_after(CLOCK_REALTIME, 10 * MS);
    check(pthread_timedjoin_np(thread, &result, &until) == ETIMEDOUT, "10 ms while it runs");
    released = 1;
    until = time_after(CLOCK_REALTIME, 1000 * NS_PER_S);
    check(pthread_timedjoin_np(thread, &result, &until) == 0 && result == (void *)5, "then it is joined in time");
}

static void *make_and_join(void *arg)
{
    intptr_t sum = 0;
    for (intptr_t i = 0; i < 20; i++)
        sum += (intptr_t)joined(start(same, (void *)i));
    return (void *)(sum == 190 ? (intptr_t)arg : -1);
}
static void makers(void)
{
    pthread_t threads[8];
    for (intptr_t i = 0; i < 8; i++)
        threads[i] = start(make_and_join, (void *)i);
    for (intptr_t i = 0; i < 8; i++)
        check(joined(threads[i]) == (void *)i, "a thread has made and joined 20");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(results), CASE(identity), CASE(process_of_threads), CASE(at_once_16), CASE(at_once_200),
        CASE(at_once_1000), CASE(one_after_another), CASE(not_again), CASE(nested), CASE(tree), CASE(detached),
        CASE(joined_by_another), CASE(join_late), CASE(join_tries), CASE(makers),
    };
    return RUN_CASES(cases);
}
