// Rank 1 owns two robust locks and ends, which takes until it is let go on: whether its child waits for the first is asked of its proxy, which
// is stopped. Rank 0 waits for the second meanwhile, which has priority inheritance; a signal is still handled.
//
// Regression: that wait did not look for signals, and held the rank for as long.
#include "../common/check.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { TICK_S = 1, TURN_NS = 50000000 };

// As Linux has the list of a thread's robust locks (uapi/linux/futex.h); bit 0 of a pointer says that the lock has priority inheritance.
struct entry {
    struct entry *next;
    uint32_t lock;
};
struct shared {
    struct entry first, second;
    uint32_t go;
};
static struct {
    struct entry *list;
    long offset;
    struct entry *pending;
} head;

static volatile sig_atomic_t ticks, ticks_before;

// The call that goes on from one tick to the next has no end of its own: it was interrupted.
static void tick(int signo)
{
    (void)signo;
    if (++ticks - ticks_before < 2)
        return;
    need(open("interrupted", O_CREAT | O_WRONLY, 0600) >= 0, "a file");
    _exit(0);
}

static void own(volatile struct shared *shared)
{
    int ends[2];
    char byte;
    need(pipe(ends) == 0, "pipe");
    if (forked() == 0) { // it shares the memory, and ends with its parent
        close(ends[1]);
        _exit((int)read(ends[0], &byte, 1));
    }
    head.list = (struct entry *)&shared->first;
    head.offset = offsetof(struct entry, lock);
    shared->first.next = (struct entry *)((uintptr_t)&shared->second | 1);
    shared->second.next = (struct entry *)&head;
    shared->first.lock = shared->second.lock = (uint32_t)getpid();
    syscall(SYS_set_robust_list, &head, sizeof head);
    FILE *file = fopen("owner.new", "w");
    need(file != NULL && fprintf(file, "%d\n", (int)getpid()) > 0 && fclose(file) == 0 && rename("owner.new", "owner") == 0, "a file");
    while (shared->go == 0)
        sched_yield();
    _exit(0);
}

int main(void)
{
    int fd = open("shared", O_RDWR | O_CREAT, 0600);
    need(fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0, "a file");
    struct shared *shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(shared != MAP_FAILED, "mmap");
    if (strcmp(getenv("MARGAY_RANK"), "1") == 0)
        own(shared);
    while (access("go", F_OK) != 0)
        sched_yield();
    struct sigaction action = {.sa_handler = tick};
    struct itimerval every = {{TICK_S, 0}, {TICK_S, 0}};
    need(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer");
    __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
    // While the owner lives the time runs out, and the lock is waited for anew.
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TURN_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        ticks_before = ticks;
        long result = syscall(SYS_futex, &shared->second.lock, FUTEX_LOCK_PI, 0, &until, NULL, 0);
        need(result == -1 && (errno == ETIMEDOUT || errno == EINTR), "still locked");
    }
}
