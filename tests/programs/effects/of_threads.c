// What the local calls that start threads, and that wait for several words, do.
#include "../common/effects.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { STACK_BYTES = 64 << 10 };
static _Atomic int ran, go;
static _Atomic int cleared;

static long bare(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

// Without a C library's thread: nothing here may need thread-local storage.
static int run(void *arg)
{
    (void)arg;
    ran = (int)bare(SYS_gettid, 0, 0, 0, 0);
    while (!go)
        bare(SYS_futex, (long)&go, FUTEX_WAIT, 0, 0);
    for (;;)
        bare(SYS_exit, 0, 0, 0, 0);
}

// Whether the process has a thread of this number.
static int listed(int tid)
{
    char path[64];
    struct stat stat_;
    snprintf(path, sizeof path, "/proc/self/task/%d", tid);
    return stat(path, &stat_) == 0;
}

static void a_thread(void)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    call("clone");
    cleared = 1;
    int tid = clone(run, stack + STACK_BYTES, flags, NULL, NULL, NULL, &cleared);
    for (int now; (now = ran) == 0;)
        sched_yield();
    check(tid > 0 && ran == tid, "it runs, and is who its maker was told");
    check(listed(tid), "/proc lists it");
    go = 1;
    bare(SYS_futex, (long)&go, FUTEX_WAKE, 1, 0);
    for (int now; (now = cleared) != 0;)
        bare(SYS_futex, (long)&cleared, FUTEX_WAIT, now, 0);
    check(tid != getpid(), "it ended, and we did not");
}

static void *tell(void *to)
{
    *(pid_t *)to = gettid();
    return to;
}
static void a_thread_of_the_library(void)
{
    pthread_t thread;
    pid_t tid = 0;
    void *result = NULL;
    call("clone3");
    check(pthread_create(&thread, NULL, tell, &tid) == 0 && pthread_join(thread, &result) == 0, "begins and ends");
    check(result == &tid && tid != 0 && tid != getpid(), "was somebody else");
}

static _Atomic uint32_t words[2];
static void *wake_second(void *arg)
{
    words[1] = 1;
    while (bare(SYS_futex, (long)&words[1], FUTEX_WAKE, 1, 0) == 0)
        sched_yield();
    return arg;
}
static void several_words(void)
{
    struct futex_waitv {
        uint64_t value, address;
        uint32_t flags, reserved;
    } list[2] = {{0, (uintptr_t)&words[0], 2, 0}, {1, (uintptr_t)&words[1], 2, 0}};
    call("futex_waitv");
    check_fails(syscall(449, list, 2, 0, NULL, 0), EAGAIN, "a word is another");
    list[1].value = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, wake_second, NULL);
    long woken = syscall(449, list, 2, 0, NULL, 0);
    // Who comes after the word has changed sees that instead.
    int late = woken == -1 && errno == EAGAIN;
    if (late) {
        list[1].value = 1;
        woken = syscall(449, list, 2, 0, NULL, 0);
    }
    pthread_join(thread, NULL);
    check(woken == 1, "woken by the second");
}

int main(void)
{
    a_thread();
    a_thread_of_the_library();
    several_words();
    return check_done();
}
