// Barriers, spin locks, semaphores and once: what waits for all, what excludes, what is refused. One case per run.
#include "in_threads.h"

#include <semaphore.h>

static pthread_mutex_t mutex;
static long sum;

static pthread_barrier_t barrier;
static atomic_int arrived[ROUNDS], serial, early;

static void *meet(void *arg)
{
    for (int round = 0; round < 100; round++) {
        arrived[round]++;
        int result = pthread_barrier_wait(&barrier);
        serial += result == PTHREAD_BARRIER_SERIAL_THREAD;
        early += arrived[round] != THREADS || (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD);
    }
    return arg;
}
static void barriers(void)
{
    memset(arrived, 0, sizeof arrived);
    serial = early = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    in_threads(meet);
    check(early == 0, "nobody passes before all have arrived, 100 times");
    check(serial == 100, "one is told apart each time");
    check(pthread_barrier_init(&barrier, NULL, 0) == EINVAL, "a barrier for nobody");
}

static pthread_spinlock_t spin;
static void *spin_add(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (pthread_spin_trylock(&spin) != 0)
            sched_yield();
        sum++;
        pthread_spin_unlock(&spin);
    }
    return arg;
}
static void spin_locks(void)
{
    sum = 0;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    in_threads(spin_add);
    check(sum == THREADS * ROUNDS, "%d additions under a spin lock", THREADS * ROUNDS);
    pthread_spin_lock(&spin);
    check(pthread_spin_trylock(&spin) == EBUSY, "a try while it is held");
}

enum { SLOTS = 4 };
static sem_t empty, full;
static long ring[SLOTS];
static atomic_long received;
static void *produce_or_consume(void *arg)
{
    static atomic_int in, out;
    if (arg == NULL)
        in = out = 0;
    for (int i = 1; arg == NULL && i <= 2 * ROUNDS; i++) {
        sem_wait(&empty);
        ring[in++ % SLOTS] = i;
        sem_post(&full);
    }
    for (int i = 0; arg != NULL && i < ROUNDS; i++) {
        sem_wait(&full);
        pthread_mutex_lock(&mutex);
        received += ring[out++ % SLOTS];
        pthread_mutex_unlock(&mutex);
        sem_post(&empty);
    }
    return NULL;
}
static void semaphores(void)
{
    pthread_mutex_init(&mutex, NULL);
    received = 0;
    need(sem_init(&empty, 0, SLOTS) == 0 && sem_init(&full, 0, 0) == 0, "sem_init");
    pthread_t producer = start(produce_or_consume, NULL);
    pthread_t first = start(produce_or_consume, (void *)1), second = start(produce_or_consume, (void *)2);
    joined(producer);
    joined(first);
    joined(second);
    check(received == ROUNDS * (2 * ROUNDS + 1), "one fills a ring, two empty it");
    int value;
    check(sem_getvalue(&empty, &value) == 0 && value == SLOTS && sem_getvalue(&full, &value) == 0 && value == 0,
          "at the end it is empty");
}

static void semaphore_timed(void)
{
    sem_t semaphore;
    need(sem_init(&semaphore, 0, 1) == 0, "sem_init");
    check(sem_trywait(&semaphore) == 0, "one is there");
    check_fails(sem_trywait(&semaphore), EAGAIN, "a second");
    struct timespec until = time_after(CLOCK_REALTIME, 20 * MS);
    check_fails(sem_timedwait(&semaphore, &until), ETIMEDOUT, "within 20 ms");
    check(clock_ns(CLOCK_REALTIME) >= until.tv_sec * NS_PER_S + until.tv_nsec, "not before");
    sem_post(&semaphore);
    check(sem_timedwait(&semaphore, &until) == 0, "one that is there is taken, however late");
}

static pthread_once_t once;
static atomic_int initialised, unready;
static void initialise(void)
{
    for (int i = 0; i < 10; i++)
        sched_yield();
    initialised++;
}
static void *use(void *arg)
{
    pthread_once(&once, initialise);
    unready += initialised != 1;
    return arg;
}
static void once_only(void)
{
    for (int round = 0; round < 20; round++) {
        once = (pthread_once_t)PTHREAD_ONCE_INIT;
        initialised = unready = 0;
        in_threads(use);
        check(initialised == 1 && unready == 0, "done once, and for all who come meanwhile");
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(barriers), CASE(spin_locks), CASE(semaphores), CASE(semaphore_timed), CASE(once_only),
    };
    return RUN_CASES(cases);
}
