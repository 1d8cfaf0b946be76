/*
 * Windows: the arenas of the other ranks, mapped by SMARTMAP's rule.
 *
 * A peer is found by its pid alone: its memfd is listed in /proc/<pid>/fd,
 * which Linux shows under the same permission check as process_vm_readv
 * (ptrace(2), PTRACE_MODE_READ).  The peer has nothing to do for it, and
 * nothing needs cleaning up after a death: the last mapping frees the memfd.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "margay.h"
#include "rendezvous.h"

#define LINK_TARGET "/memfd:" ARENA_NAME " (deleted)"

static struct window {
    _Atomic pid_t pid; /* 0: closed; written last when opening */
    uint64_t bytes;
} windows[SMARTMAP_MAX_RANKS];

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static const struct arena_header *header_of(int rank)
{
    return smartmap_remote((unsigned)rank, (void *)ARENA_BASE);
}

static bool window_is_open(int rank)
{
    return rank >= 0 && rank < SMARTMAP_MAX_RANKS &&
           atomic_load_explicit(&windows[rank].pid, memory_order_acquire) != 0;
}

/** Look at the header before mapping the whole; 0 or a negative errno. */
static int check_arena(int fd, pid_t pid, int *rank, uint64_t *bytes)
{
    struct stat status;
    struct arena_header h;
    const int seals = F_SEAL_SHRINK | F_SEAL_SEAL;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || h.magic != ARENA_MAGIC ||
        h.pid != pid || h.bytes != (uint64_t)status.st_size ||
        h.bytes > ARENA_MAX_BYTES || (fcntl(fd, F_GET_SEALS) & seals) != seals)
        return -ENOENT;
    if (h.abi != SMARTMAP_ABI || h.job != arena_own()->job || h.rank < 0 ||
        h.rank >= SMARTMAP_MAX_RANKS || (*rank >= 0 && h.rank != *rank))
        return -EXDEV;
    *rank = h.rank;
    *bytes = h.bytes;
    return 0;
}

/**
 * Open the arena of a process: a descriptor, or a negative errno.  The process
 * may hold other ranks' arenas open at this moment, for it attaches them too.
 */
static int open_arena_in(const char *folder, pid_t pid, int *rank, uint64_t *bytes)
{
    char target[sizeof LINK_TARGET + 1];
    DIR *directory = opendir(folder);
    if (!directory)
        return -errno;
    int found = -ENOENT;
    for (struct dirent *e; found == -ENOENT && (e = readdir(directory)) != NULL;) {
        ssize_t n = readlinkat(dirfd(directory), e->d_name, target, sizeof target);
        if (n != (ssize_t)sizeof LINK_TARGET - 1 ||
            memcmp(target, LINK_TARGET, sizeof LINK_TARGET - 1) != 0)
            continue;
        int fd = openat(dirfd(directory), e->d_name, O_RDWR | O_CLOEXEC);
        found = fd < 0 ? -ENOENT : check_arena(fd, pid, rank, bytes);
        if (found == 0)
            found = fd;
        else if (fd >= 0)
            close(fd);
    }
    closedir(directory);
    return found;
}

static int open_arena_of(pid_t pid, int *rank, uint64_t *bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return open_arena_in(path, pid, rank, bytes);
}

/**
 * Has the owner a thread that still holds the arena?  The initial one may have
 * ended by pthread_exit(3); descriptors are then listed under the others only.
 */
static bool has_threads(pid_t pid, int rank)
{
    char path[64];
    uint64_t bytes;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    int found = -ENOENT;
    for (struct dirent *e; tasks && found < 0 && (e = readdir(tasks)) != NULL;) {
        int tid = atoi(e->d_name);
        if (tid <= 0 || tid == pid)
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%d/fd", (int)pid, tid);
        found = open_arena_in(path, pid, &rank, &bytes);
    }
    if (tasks)
        closedir(tasks);
    if (found >= 0)
        close(found);
    return found >= 0;
}

/** See start_heartbeat() in arena.c; the word is the futex of the mutex. */
static bool owner_lives(const struct arena_header *h)
{
    const unsigned died = 0x40000000, tid = 0x3fffffff; /* linux/futex.h */
    unsigned word = (unsigned)__atomic_load_n(&h->alive.__data.__lock,
                                              __ATOMIC_ACQUIRE);
    return ((word & tid) != 0 && (word & died) == 0) || has_threads(h->pid, h->rank);
}

static int map_window(int rank, pid_t pid, int fd, uint64_t bytes)
{
    void *at = smartmap_remote((unsigned)rank, (void *)ARENA_BASE);
    void *got = raw_mmap(at, bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (got != at) {
        if (got == MAP_FAILED)
            return errno == EEXIST ? -EADDRINUSE : -errno;
        raw_munmap(got, bytes);
        return -EADDRINUSE;
    }
    syscall(SYS_madvise, at, bytes, MADV_DONTFORK);
    syscall(SYS_madvise, at, bytes, MADV_DONTDUMP);
    windows[rank].bytes = bytes;
    atomic_store_explicit(&windows[rank].pid, pid, memory_order_release);
    return 0;
}

/**
 * Open the window of process `pid`; `rank` -1 accepts whichever it has.
 * A window stays for life: another thread may be reading through it, even
 * after its owner died.  Returns the rank or a negative errno.
 */
static int open_window(int rank, pid_t pid)
{
    uint64_t bytes = 0;
    if (!arena_own())
        return -ENOENT;
    int fd = open_arena_of(pid, &rank, &bytes);
    if (fd < 0)
        return fd;
    int result = 0;
    pid_t present = window_is_open(rank) ? windows[rank].pid : 0;
    if (present == 0)
        result = map_window(rank, pid, fd, bytes);
    else if (present != pid || !owner_lives(header_of(rank)))
        result = -EADDRINUSE;
    close(fd);
    return result == 0 ? rank : result;
}

int smartmap_provider_attach(int rank, pid_t pid)
{
    if (margay_present())
        return margay_attach(rank, pid);
    if (rank < 0 || rank >= SMARTMAP_MAX_RANKS)
        return -EINVAL;
    if (window_is_open(rank) && windows[rank].pid == pid &&
        owner_lives(header_of(rank)))
        return 0;
    pthread_mutex_lock(&opening);
    int result = open_window(rank, pid);
    pthread_mutex_unlock(&opening);
    return result < 0 ? result : 0;
}

/**
 * The rank whose window shows process `pid`, opened on first use, or -1.
 * A pid that has no arena is remembered, so that asking again is cheap.
 */
int window_of_pid(pid_t pid)
{
    static _Atomic pid_t refused[64];
    _Atomic pid_t *memory = &refused[(unsigned)pid % 64];
    for (int rank = 0; rank < smartmap_provider_size(); rank++)
        if (atomic_load_explicit(&windows[rank].pid, memory_order_acquire) == pid)
            return rank;
    if (pid <= 0 || pid == getpid() || atomic_load(memory) == pid)
        return -1;
    int saved = errno; /* a call that succeeds leaves errno alone */
    pthread_mutex_lock(&opening);
    int rank = open_window(-1, pid);
    pthread_mutex_unlock(&opening);
    errno = saved;
    if (rank < 0)
        atomic_store(memory, pid);
    return rank < 0 ? -1 : rank;
}

int smartmap_provider_alive(int rank)
{
    if (margay_present())
        return margay_alive(rank);
    return window_is_open(rank) && owner_lives(header_of(rank));
}

/** Do these bytes lie in a window, with no other marks than `allowed`? */
static bool is_in_window(int rank, const void *address, size_t bytes, uint32_t allowed)
{
    uint64_t offset = (uint64_t)address - ARENA_BASE;
    if (rank == arena_rank())
        return 0; /* our own memory has no window; use it directly */
    if ((uint64_t)address < ARENA_BASE || !window_is_open(rank))
        return 0;
    uint64_t limit = windows[rank].bytes;
    const struct arena_header *h = header_of(rank);
    return offset <= limit && bytes <= limit - offset && owner_lives(h) &&
           (atomic_load_explicit(&h->irregular, memory_order_relaxed) & ~allowed) == 0;
}

int smartmap_provider_reachable(int rank, const void *address, size_t bytes)
{
    if (margay_present())
        return margay_reachable(rank, address, bytes);
    return is_in_window(rank, address, bytes, 0);
}

int smartmap_provider_shows(int rank, const void *address, size_t bytes)
{
    if (margay_present())
        return margay_reachable(rank, address, bytes);
    return is_in_window(rank, address, bytes, PAGES_PROTECTED);
}

uint64_t provider_job(void)
{
    if (margay_present())
        return margay_job();
    return arena_own() ? arena_own()->job : 0;
}

/** What programs announce that join without MPI. */
#define JOIN "join"

/** pid of a rank by the arena that it holds, or -EAGAIN. */
static pid_t search_rank(int rank)
{
    DIR *processes = opendir("/proc");
    pid_t found = -EAGAIN;
    for (struct dirent *e; processes && found < 0 && (e = readdir(processes)) != NULL;) {
        pid_t pid = atoi(e->d_name);
        int wanted = rank;
        uint64_t bytes;
        int fd = pid > 0 ? open_arena_of(pid, &wanted, &bytes) : -ENOENT;
        if (fd < 0)
            continue;
        close(fd);
        found = pid;
    }
    if (processes)
        closedir(processes);
    return found;
}

/** pid of a rank that has announced itself, or a negative errno. */
static pid_t find_rank(int rank)
{
    struct ucred peer;
    int failure = rendezvous_with(rank, JOIN, &peer);
    if (failure == -EAGAIN)
        return search_rank(rank);
    if (failure != 0)
        return failure;
    return peer.pid > 0 ? peer.pid : -EPERM; /* 0: of another PID namespace */
}

int smartmap_provider_join(int timeout_ms)
{
    if (margay_present())
        return margay_join(timeout_ms);
    if (!arena_own())
        return -ENOENT;
    int result = smartmap_provider_announce(JOIN);
    for (int rank = 0; result == 0 && rank < smartmap_provider_size(); rank++) {
        if (rank == arena_rank())
            continue;
        pid_t pid = find_rank(rank);
        for (; (pid == -ECONNREFUSED || pid == -EAGAIN) && timeout_ms > 0; timeout_ms--) {
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
            pid = find_rank(rank);
        }
        if (pid == -ECONNREFUSED || pid == -EAGAIN)
            return -ETIMEDOUT;
        result = pid < 0 ? (int)pid : smartmap_provider_attach(rank, pid);
    }
    return result;
}
