// What a rank does while its host is hostile (tests/hostile): all kinds of calls, for so many rounds: `busy SEED ROUNDS`.
// Whatever a call answers is right: the host may say anything. Rank 1 is the witness: it only counts, in the file `witness`.
#define _GNU_SOURCE
#include "random.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, BYTES = 1 << 16 };

static char name[64];
static long rounds;

// The rank. A child to which its registers say that it is the parent finds that it is not.
static pid_t self;

static void ignore(int signo) { (void)signo; }

// A child with wrong registers, or wrong memory, would come to the same instruction for ever.
static void fault(int signo)
{
    (void)signo;
    if (getpid() != self)
        _exit(0);
}

static int is_fault(int signo)
{
    return signo == SIGILL || signo == SIGTRAP || signo == SIGBUS || signo == SIGFPE || signo == SIGSYS;
}

static void files(uint64_t *state)
{
    char buffer[4096];
    struct stat about;
    struct iovec parts[2] = {{buffer, 100}, {buffer + 1000, 3000}};
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    pwrite(fd, buffer, draw(state) % sizeof buffer, (off_t)(draw(state) % BYTES));
    preadv(fd, parts, 2, (off_t)(draw(state) % BYTES));
    fstat(fd, &about);
    lseek(fd, 0, SEEK_END);
    struct pollfd wait = {fd, POLLIN, 0};
    poll(&wait, 1, 1);
    int more = dup(fd);
    close(more);
    int flags = draw(state) % 2 ? MAP_SHARED : MAP_PRIVATE;
    char *shown = mmap(NULL, BYTES, PROT_READ | (flags == MAP_SHARED ? PROT_WRITE : 0), flags, fd, 0);
    if (shown != MAP_FAILED) {
        msync(shown, BYTES, MS_SYNC);
        munmap(shown, BYTES);
    }
    close(fd);
}

static void memory(uint64_t *state)
{
    size_t bytes = 4096 * (1 + draw(state) % 1000);
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    at[0] = at[bytes - 1] = 1;
    mprotect(at + bytes / 4096 / 2 * 4096, 4096, PROT_READ);
    madvise(at, 4096, MADV_DONTNEED);
    char *moved = mremap(at, bytes, 2 * bytes, MREMAP_MAYMOVE);
    if (moved != MAP_FAILED)
        munmap(moved, 2 * bytes);
}

static void signals(uint64_t *state)
{
    sigset_t set, old;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    raise(draw(state) % 2 ? SIGUSR1 : SIGRTMIN + 3);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    struct itimerval soon = {{0, 0}, {0, 1000}};
    setitimer(draw(state) % 2 ? ITIMER_REAL : ITIMER_VIRTUAL, &soon, NULL);
}

static void times(uint64_t *state)
{
    static _Atomic int word;
    struct timespec now, some = {0, (long)(draw(state) % 100000)};
    struct utsname about;
    clock_gettime(CLOCK_MONOTONIC, &now);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    nanosleep(&some, NULL);
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &some, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    sched_yield();
    uname(&about);
    getppid();
}

static void *thread(void *unused) { return unused; }

static void births(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, thread, NULL) == 0)
        pthread_detach(other);
    // Not glibc's, which takes locks: what a child begins with are words, too.
    pid_t child = syscall(SYS_fork);
    if (child == 0 || getpid() != self)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, WNOHANG);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void *work(void *seed)
{
    uint64_t state = (uint64_t)seed;
    for (long i = 0; i < rounds; i++) {
        switch (draw(&state) % 16) {
        case 0: births(); break;
        case 1 ... 3: memory(&state); break;
        case 4 ... 5: signals(&state); break;
        case 6 ... 8: times(&state); break;
        default: files(&state);
        }
    }
    return NULL;
}

static int witness(void)
{
    int fd = open("witness", O_RDWR | O_CREAT, 0600);
    for (uint64_t count = 1;; count++)
        if (pwrite(fd, &count, sizeof count, 0) != sizeof count)
            return 1;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("MARGAY_RANK");
    if (argc < 3)
        return 2;
    uint64_t seed = strtoul(argv[1], NULL, 0);
    rounds = strtol(argv[2], NULL, 0);
    if (rank != NULL && strcmp(rank, "1") == 0)
        return witness();
    self = getpid();
    for (int signo = 1; signo <= SIGRTMAX; signo++)
        if (signo != SIGTERM && signo != SIGSEGV)
            signal(signo, is_fault(signo) ? fault : ignore);
    snprintf(name, sizeof name, "file");
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(seed + (uint64_t)i));
    work((void *)(seed + THREADS));
    return 0;
}
