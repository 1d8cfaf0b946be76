// What each thread has of its own: thread-local variables, values of keys and
// their destructors, errno. One case per run.
#include "../common/parallel.h"

enum { THREADS = 8 };
static __thread int initialised = 1234, zero;
static __thread struct {
    char text[100];
    double number;
} __attribute__((aligned(64))) aligned = {"initial", 2.5};
static __thread char large[40000];

static atomic_int wrong, met;
static void in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    wrong = met = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start(body, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        joined(threads[i]);
}

static void *use_variables(void *arg)
{
    int own = (int)(intptr_t)arg;
    wrong += initialised != 1234 || zero != 0 || !all_bytes(large, 0, sizeof large);
    wrong += strcmp(aligned.text, "initial") != 0 || aligned.number != 2.5 || (uintptr_t)&aligned % 64 != 0;
    initialised = zero = own;
    aligned.number = own;
    memset(large, own, sizeof large);
    met++;
    AWAIT(met == THREADS);
    for (int i = 0; i < 20; i++) {
        wrong += initialised != own || zero != own || aligned.number != own || !all_bytes(large, own, sizeof large);
        sched_yield();
    }
    return NULL;
}
static void variables(void)
{
    zero = 77;
    in_threads(use_variables);
    check(wrong == 0, "each thread has its variables, as they were initialised");
    check(zero == 77 && initialised == 1234, "the main thread's are its own");
    zero = 0;
}

static void *use_errno(void *arg)
{
    for (int i = 0; i < 50; i++) {
        errno = 0;
        if ((intptr_t)arg % 2)
            wrong += close(-1) != -1 || errno != EBADF;
        else
            wrong += read(0, NULL, 0) == -1 && errno == EBADF;
        sched_yield();
        wrong += errno != ((intptr_t)arg % 2 ? EBADF : 0);
    }
    return NULL;
}
static void error_numbers(void)
{
    in_threads(use_errno);
    check(wrong == 0, "errno of each thread is that of its own calls");
}

static pthread_key_t key, other_key;
static atomic_int destroyed, rounds_of_destruction;
static void destroy(void *value)
{
    destroyed += (int)(intptr_t)value;
}
static void *use_key(void *arg)
{
    wrong += pthread_getspecific(key) != NULL;
    wrong += pthread_setspecific(key, arg) != 0;
    met++;
    AWAIT(met == THREADS);
    wrong += pthread_getspecific(key) != arg;
    return NULL;
}
static void keys(void)
{
    destroyed = 0;
    need(pthread_key_create(&key, destroy) == 0, "pthread_key_create");
    in_threads(use_key);
    check(wrong == 0, "each thread has its value of a key");
    check(destroyed == THREADS * (THREADS + 1) / 2, "each is destroyed once");
    check(pthread_getspecific(key) == NULL && pthread_key_delete(key) == 0, "the main thread had none");
}

// A destructor that sets a value again is called again, some times.
static void set_again(void *value)
{
    rounds_of_destruction++;
    if ((intptr_t)value > 1)
        pthread_setspecific(other_key, (char *)value - 1);
}
static void *set_once(void *arg)
{
    pthread_setspecific(other_key, arg);
    return NULL;
}
static void destructors_again(void)
{
    rounds_of_destruction = 0;
    need(pthread_key_create(&other_key, set_again) == 0, "pthread_key_create");
    joined(start(set_once, (void *)3));
    check(rounds_of_destruction == 3, "a value that comes back is destroyed again");
    rounds_of_destruction = 0;
    joined(start(set_once, (void *)1000));
    check(rounds_of_destruction == PTHREAD_DESTRUCTOR_ITERATIONS, "but not for ever");
    pthread_key_delete(other_key);
}

static void key_limit(void)
{
    static pthread_key_t all[PTHREAD_KEYS_MAX + 1];
    int count = 0, error = 0;
    while (count <= PTHREAD_KEYS_MAX && (error = pthread_key_create(&all[count], NULL)) == 0)
        count++;
    check(error == EAGAIN && count > 0, "there are only so many keys");
    for (int i = 0; i < count; i++)
        pthread_key_delete(all[i]);
    check(pthread_key_create(&all[0], NULL) == 0 && pthread_key_delete(all[0]) == 0, "deleted ones can be had again");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(variables), CASE(error_numbers), CASE(keys), CASE(destructors_again), CASE(key_limit),
    };
    return RUN_CASES(cases);
}
