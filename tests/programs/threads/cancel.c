// pthread_cancel: deferred and asynchronous, at the calls that it may end, with
// cleanup handlers, disabled and enabled again. One case per run.
#include "../common/parallel.h"

#include <poll.h>
#include <semaphore.h>

static atomic_int ready, cleaned;
static int order[8], pipe_ends[2];
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void clean(void *arg) { order[cleaned++] = (int)(intptr_t)arg; }

// Cancels a thread that has said it is ready, and sees that it ended so.
static void cancelled(void *(*body)(void *), const char *what)
{
    ready = cleaned = 0;
    pthread_t thread = start(body, NULL);
    AWAIT(ready);
    check(pthread_cancel(thread) == 0, "a thread is cancelled");
    check(joined(thread) == PTHREAD_CANCELED && cleaned == 1, "%s", what);
}

// Threads that wait for good, each in another call.
#define WAITING(name, call)                                                                                            \
    static void *name##_body(void *arg)                                                                                \
    {                                                                                                                  \
        char byte;                                                                                                     \
        struct timespec time = {.tv_sec = 1000};                                                                       \
        (void)byte, (void)time;                                                                                        \
        pthread_cleanup_push(clean, NULL);                                                                             \
        ready = 1;                                                                                                     \
        call;                                                                                                          \
        pthread_cleanup_pop(0);                                                                                        \
        return arg;                                                                                                    \
    }
WAITING(in_sleep, nanosleep(&time, NULL))
WAITING(in_read, read(pipe_ends[0], &byte, 1))
WAITING(in_poll, poll(NULL, 0, -1))
WAITING(in_pause, pause())
WAITING(in_semaphore, sem_wait(&semaphore))
WAITING(at_test, for (;;) pthread_testcancel())

static void in_sleep(void) { cancelled(in_sleep_body, "in nanosleep"); }
static void in_read(void)
{
    need(pipe(pipe_ends) == 0, "pipe");
    cancelled(in_read_body, "in read");
    close(pipe_ends[0]), close(pipe_ends[1]);
}
static void in_poll(void) { cancelled(in_poll_body, "in poll"); }
static void in_pause(void) { cancelled(in_pause_body, "in pause"); }
static void in_semaphore(void)
{
    int value;
    need(sem_init(&semaphore, 0, 0) == 0, "sem_init");
    cancelled(in_semaphore_body, "in sem_wait");
    check(sem_getvalue(&semaphore, &value) == 0 && value == 0, "the semaphore is as it was");
}
static void at_test(void) { cancelled(at_test_body, "at pthread_testcancel"); }

static void *other_body(void *arg)
{
    struct timespec time = {.tv_sec = 1000};
    nanosleep(&time, NULL);
    return arg;
}
static void *in_join_body(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    ready = 1;
    pthread_join(*(pthread_t *)arg, NULL);
    pthread_cleanup_pop(0);
    return arg;
}
static void in_join(void)
{
    ready = cleaned = 0;
    pthread_t other = start(other_body, NULL), thread = start(in_join_body, &other);
    AWAIT(ready);
    pthread_cancel(thread);
    check(joined(thread) == PTHREAD_CANCELED && cleaned == 1, "in pthread_join");
    pthread_cancel(other);
    check(joined(other) == PTHREAD_CANCELED, "the other can be joined still");
}

static void unlock(void *arg)
{
    // The mutex is the thread's again before its handlers run.
    cleaned = pthread_mutex_trylock(arg) == EBUSY;
    pthread_mutex_unlock(arg);
}
static void *in_condition_body(void *arg)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    ready = 1;
    for (;;)
        pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(0);
    return arg;
}
static void in_condition(void)
{
    cancelled(in_condition_body, "in pthread_cond_wait, with the mutex held again");
    check(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0, "which is free now");
}

static void *compute_body(void *arg)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean, NULL);
    ready = 1;
    for (volatile uint64_t i = 0;; i++)
        ;
    pthread_cleanup_pop(0);
    return arg;
}
static void asynchronous(void) { cancelled(compute_body, "while it computes, asynchronously"); }

static atomic_int go_on;
static void *disabled_body(void *arg)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_cleanup_push(clean, NULL);
    ready = 1;
    AWAIT(go_on);
    struct timespec soon = timespec_of(MS);
    nanosleep(&soon, NULL);
    pthread_testcancel();
    *(int *)arg = old == PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    *(int *)arg = 0;
    pthread_cleanup_pop(0);
    return NULL;
}
static void disabled(void)
{
    int reached = 0;
    ready = cleaned = go_on = 0;
    pthread_t thread = start(disabled_body, &reached);
    AWAIT(ready);
    pthread_cancel(thread);
    go_on = 1;
    check(joined(thread) == PTHREAD_CANCELED && reached && cleaned == 1, "when it allows it again, not before");
}

static void *own_key_body(void *arg)
{
    pthread_cleanup_push(clean, (void *)1);
    pthread_cleanup_push(clean, (void *)2);
    pthread_cleanup_push(clean, (void *)3);
    pthread_cleanup_pop(1);
    ready = 1;
    pause();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return arg;
}
static void handlers(void)
{
    ready = cleaned = 0;
    pthread_t thread = start(own_key_body, NULL);
    AWAIT(ready);
    pthread_cancel(thread);
    check(joined(thread) == PTHREAD_CANCELED, "a thread with cleanup handlers is cancelled");
    check(cleaned == 3 && order[0] == 3 && order[1] == 2 && order[2] == 1, "they run, the last one first");
}

static void *exit_body(void *arg)
{
    pthread_cleanup_push(clean, (void *)1);
    pthread_exit(arg);
    pthread_cleanup_pop(0);
}
static void handlers_at_exit(void)
{
    cleaned = 0;
    check(joined(start(exit_body, (void *)5)) == (void *)5 && cleaned == 1, "they run at pthread_exit too");
}

static void *self_body(void *arg)
{
    pthread_cancel(pthread_self());
    *(int *)arg = 1; // not yet
    pthread_testcancel();
    *(int *)arg = 2;
    return NULL;
}
static void itself(void)
{
    int reached = 0;
    check(joined(start(self_body, &reached)) == PTHREAD_CANCELED && reached == 1, "a thread cancels itself");
}

// Cancelled before it gets to run: at its first call that can be ended.
static void at_once(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t thread = start(other_body, NULL);
        pthread_cancel(thread);
        if (joined(thread) != PTHREAD_CANCELED)
            check(0, "a thread returned");
    }
    check(1, "50 threads cancelled as soon as they were made");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(in_sleep), CASE(in_read), CASE(in_poll), CASE(in_pause), CASE(in_semaphore), CASE(at_test),
        CASE(in_join), CASE(in_condition), CASE(asynchronous), CASE(disabled), CASE(handlers),
        CASE(handlers_at_exit), CASE(itself), CASE(at_once),
    };
    return RUN_CASES(cases);
}
