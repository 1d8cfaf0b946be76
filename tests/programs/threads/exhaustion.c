// Too many threads, too few resources: the error that says so, and everything
// goes on afterwards. One case per run.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/resource.h>

static atomic_int release;
static void *wait_for_release(void *arg)
{
    while (!release)
        futex_wait(&release, 0);
    return arg;
}
static void *same(void *arg) { return arg; }

// Threads until there are no more; then those end, and others can be made.
static int until_refused(pthread_t *threads, int most, size_t stack_bytes, int *error)
{
    int made = 0;
    release = 0;
    for (*error = 0; made < most; made++)
        if ((*error = try_start(&threads[made], stack_bytes, wait_for_release, NULL)) != 0)
            break;
    return made;
}
static void end_all(pthread_t *threads, int made)
{
    release = 1;
    futex_wake(&release, INT_MAX);
    for (int i = 0; i < made; i++)
        joined(threads[i]);
    check(joined(start(same, (void *)3)) == (void *)3, "when they have ended another can be made");
}

// As many as Linux lets a user have: this process's user has some already.
static void too_many(void)
{
    static pthread_t threads[8];
    struct rlimit few = {1, 1}, old;
    int error;
    need(getrlimit(RLIMIT_NPROC, &old) == 0, "getrlimit");
    few.rlim_max = old.rlim_max;
    need(setrlimit(RLIMIT_NPROC, &few) == 0, "setrlimit");
    int made = until_refused(threads, 8, SMALL_STACK_BYTES, &error);
    if (geteuid() == 0)
        check(made == 8, "root is not bound by RLIMIT_NPROC");
    else
        check(made < 8 && error == EAGAIN, "threads beyond RLIMIT_NPROC are refused with EAGAIN");
    setrlimit(RLIMIT_NPROC, &old);
    end_all(threads, made);
}

// No room for a stack: address space is limited.
static void no_memory(void)
{
    static pthread_t threads[64];
    struct rlimit limit, old;
    int error;
    need(getrlimit(RLIMIT_AS, &old) == 0, "getrlimit");
    limit = old;
    limit.rlim_cur = 64 << 20;
    need(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    int made = until_refused(threads, 64, 16 << 20, &error);
    check(made < 64 && error == EAGAIN, "no room for a stack: EAGAIN");
    setrlimit(RLIMIT_AS, &old);
    end_all(threads, made);
}

static void stack_too_large(void)
{
    pthread_t thread;
    check(try_start(&thread, (size_t)1 << 46, same, NULL) == EAGAIN, "a stack of 64 TiB: EAGAIN");
    check(joined(start(same, (void *)4)) == (void *)4, "a small one");
}

// A thread needs no descriptor.
static void no_descriptors(void)
{
    enum { MOST = 1024 };
    static int fds[MOST];
    struct rlimit limit, old;
    int count = 0;
    need(getrlimit(RLIMIT_NOFILE, &old) == 0, "getrlimit");
    limit = old;
    limit.rlim_cur = 64;
    need(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    while (count < MOST && (fds[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    check(errno == EMFILE, "all descriptors are used");
    int right = 1;
    for (intptr_t i = 0; i < 10; i++)
        right &= joined(start(same, (void *)i)) == (void *)i;
    check(right, "threads can be made still");
    for (int i = 0; i < count; i++)
        close(fds[i]);
    setrlimit(RLIMIT_NOFILE, &old);
}

// A thread's death leaves nothing behind: far more than fit at once, and all the same memory.
static void nothing_left(void)
{
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        need(try_start(&thread, 8 << 20, same, NULL) == 0, "pthread_create");
        joined(thread);
    }
    check(1, "300 threads, each with a stack of 8 MiB, one after the other");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(too_many), CASE(no_memory), CASE(stack_too_large), CASE(no_descriptors), CASE(nothing_left),
    };
    return RUN_CASES(cases);
}
