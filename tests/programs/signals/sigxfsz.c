// SIGXFSZ: a call that would make a file longer than RLIMIT_FSIZE sends it to its own thread before it returns EFBIG, and ends
// the program with 128 + 25 by default.
#include "../common/check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { LIMIT = 4096, ROUNDS = 300 };

static volatile int calls, in_thread, from_us;
static int file;

static void count(int signo, siginfo_t *info, void *context)
{
    (void)context;
    calls += signo == SIGXFSZ;
    in_thread = (int)syscall(SYS_gettid);
    from_us = info->si_code == SI_USER && info->si_pid == getpid();
}

static void set_to(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    need(sigaction(SIGXFSZ, &action, NULL) == 0, "sigaction");
}

// A call that takes over what Linux has for the process.
static void settle(void) { check(kill(0, 0) == 0, "the process group is there"); }

static void each_call(void)
{
    static const char byte[1];
    struct iovec one = {(void *)byte, 1};
    calls = 0;
    check_fails(pwrite(file, byte, 1, LIMIT), EFBIG, "pwrite");
    check(calls == 1 && from_us, "its handler ran before it returned");
    check_fails(pwritev(file, &one, 1, LIMIT), EFBIG, "pwritev");
    check(calls == 2, "its handler ran");
    check_fails(ftruncate(file, LIMIT + 1), EFBIG, "ftruncate");
    check(calls == 3, "its handler ran");
    check_fails(posix_fallocate(file, 0, LIMIT + 1) == EFBIG ? (errno = EFBIG, -1) : 0, EFBIG, "fallocate");
    check(calls == 4, "its handler ran");
    check(lseek(file, LIMIT, SEEK_SET) == LIMIT, "to the limit");
    check_fails(write(file, byte, 1), EFBIG, "write");
    check_fails(writev(file, &one, 1), EFBIG, "writev");
    check(calls == 6 && in_thread == (int)syscall(SYS_gettid), "each in the thread that called");
    settle();
    check(calls == 6, "not once more by a later call");
}

static void *other_thread(void *none)
{
    each_call();
    return none;
}

// Nothing comes of an ignored one, however soon it is not ignored any more.
static void ignored(void)
{
    int refused = 0;
    for (int i = 0; i < ROUNDS; i++) {
        signal(SIGXFSZ, SIG_IGN);
        refused += pwrite(file, "", 1, LIMIT) == -1 && errno == EFBIG;
        signal(SIGXFSZ, SIG_DFL);
    }
    settle();
    check(refused == ROUNDS, "%d ignored ones", ROUNDS);
}

static void blocked(void)
{
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    calls = 0;
    sigprocmask(SIG_BLOCK, &set, NULL);
    check_fails(pwrite(file, "", 1, LIMIT), EFBIG, "while it is blocked");
    check(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1 && calls == 0, "it is pending at once");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    check(calls == 1, "then its handler ran");
}

int main(void)
{
    struct rlimit limit = {LIMIT, LIMIT}, none = {0, 0};
    pthread_t thread;
    need((file = open("f", O_RDWR | O_CREAT, 0600)) >= 0, "open");
    need(setrlimit(RLIMIT_FSIZE, &limit) == 0 && setrlimit(RLIMIT_CORE, &none) == 0, "setrlimit");
    set_to(count);
    each_call();
    need(pthread_create(&thread, NULL, other_thread, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    blocked();
    ignored();
    check_done();
    fflush(stdout);
    pwrite(file, "", 1, LIMIT);
    puts("still here");
    return 1;
}
