// C11's threads.h: threads, mutexes, conditions, once, storage, sleep.
#include "../common/check.h"

#include <stdatomic.h>
#include <threads.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 500 };
static mtx_t mutex;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static long sum, turn;
static atomic_int initialised, destroyed, failures;
static thread_local int own = 5;

static void initialise(void) { initialised++; }
static void destroy(void *value) { destroyed += *(int *)value; }

static int body(void *arg)
{
    int number = *(int *)arg;
    call_once(&once, initialise);
    failures += own != 5 || tss_set(key, arg) != thrd_success;
    own = number;
    for (int i = 0; i < ROUNDS; i++) {
        mtx_lock(&mutex);
        sum++;
        mtx_unlock(&mutex);
    }
    for (int i = 0; i < 20; i++) {
        mtx_lock(&mutex);
        while (turn % THREADS != number)
            cnd_wait(&changed, &mutex);
        turn++;
        cnd_broadcast(&changed);
        mtx_unlock(&mutex);
    }
    failures += own != number || tss_get(key) != arg;
    return number * 10;
}

static int leave(void *arg)
{
    (void)arg;
    thrd_exit(77);
}

int main(void)
{
    thrd_t threads[THREADS];
    int numbers[THREADS], result, right = 1;
    struct timespec until, pause = {.tv_nsec = 2000000};

    check(mtx_init(&mutex, mtx_plain) == thrd_success && cnd_init(&changed) == thrd_success, "a mutex and a condition");
    check(tss_create(&key, destroy) == thrd_success, "storage");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        need(thrd_create(&threads[i], body, &numbers[i]) == thrd_success, "thrd_create");
    }
    for (int i = 0; i < THREADS; i++)
        right &= thrd_join(threads[i], &result) == thrd_success && result == i * 10;
    check(right, "what threads return");
    check(sum == THREADS * ROUNDS && turn == 20 * THREADS, "they excluded each other, and took turns");
    check(initialised == 1 && destroyed == 6 && failures == 0 && own == 5, "initialised once, each with its own storage");

    need(thrd_create(&threads[0], leave, NULL) == thrd_success, "thrd_create");
    check(thrd_join(threads[0], &result) == thrd_success && result == 77, "thrd_exit");
    check(thrd_equal(thrd_current(), thrd_current()) != 0, "a thread is itself");

    mtx_destroy(&mutex);
    check(mtx_init(&mutex, mtx_timed | mtx_recursive) == thrd_success, "a recursive mutex with timeouts");
    check(mtx_lock(&mutex) == thrd_success && mtx_trylock(&mutex) == thrd_success, "locked twice");
    mtx_unlock(&mutex);
    timespec_get(&until, TIME_UTC);
    check(cnd_timedwait(&changed, &mutex, &until) == thrd_timedout, "a wait until now times out");
    mtx_unlock(&mutex);
    check(thrd_sleep(&pause, NULL) == 0, "sleeps");
    thrd_yield();
    return check_done();
}
