/*
 * The arena: one memfd at a fixed low address, from which the allocator takes
 * the memory it would otherwise ask Linux for.
 *
 * Memory is handed out in granules of 2 MiB, so that the host can back it with
 * huge pages.  Each granule counts the 4 KiB pages in use, because an
 * allocator may give back a part of what it took.  The memfd is sparse: an
 * untouched page costs nothing, and a page given back is punched out.
 *
 * Nothing here fails the program.  Where there is no job, no memfd, no room
 * under `ulimit -v` or `-f`, or no arena memory left, allocations come from
 * Linux as always; peers then find them unreachable, and copy.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "margay.h"

#define GRANULES        (ARENA_MAX_BYTES / GRANULE_BYTES)
#define GRANULE_PAGES   (GRANULE_BYTES / PAGE_BYTES)
#define SEGMENT_BYTES   (UINT64_C(32) << 20) /* mimalloc aligns its segments so */

enum { FD_HIGH = 960 }; /* out of the way of programs that count descriptors */

static struct {
    _Atomic int state; /* 0 untried, 1 being tried, 2 decided */
    bool present;      /* allocations come from the arena */
    _Atomic bool forked; /* the heap is a private copy, nobody's window */
    struct job job;
    uint64_t bytes;
    int fd;            /* open for life, unless the program closes what it does not know */
    struct stat file;  /* what it was when it was opened */
    _Atomic int lock;
    uint64_t next;     /* granule at which the next search begins */
    uint16_t pages_used[GRANULES];
} arena;

void *raw_mmap(void *address, size_t bytes, int prot, int flags, int fd,
               off_t offset)
{
    return (void *)syscall(SYS_mmap, address, bytes, prot, flags, fd, offset);
}

int raw_munmap(void *address, size_t bytes)
{
    return (int)syscall(SYS_munmap, address, bytes);
}

int raw_mprotect(void *address, size_t bytes, int prot)
{
    return (int)syscall(SYS_mprotect, address, bytes, prot);
}

static struct arena_header *header(void)
{
    return (struct arena_header *)ARENA_BASE;
}

/** A spin lock: the allocator calls us where a pthread mutex cannot go. */
static void lock(void)
{
    while (atomic_exchange_explicit(&arena.lock, 1, memory_order_acquire))
        syscall(SYS_sched_yield);
}

static void unlock(void)
{
    atomic_store_explicit(&arena.lock, 0, memory_order_release);
}

/**
 * A program under `ulimit -v` has budgeted its address space; the arena would
 * eat it up, so such a program keeps the plain heap.
 */
static bool address_space_is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/** Under `ulimit -f`, which counts memfds, ftruncate(2) would end the program by SIGXFSZ. */
static bool is_longer_than_a_file_may_be(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* linux/memfd.h, since 6.3 */
#endif

static int open_memfd(uint64_t bytes)
{
    /* Hosts may insist on memfds without execute permission (sysctl
     * vm.memfd_noexec); older kernels do not know the flag. */
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(ARENA_NAME, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(ARENA_NAME, flags);
    if (fd < 0)
        return -1;
    /* Sealed against shrinking, no peer can meet SIGBUS in its window. */
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

/**
 * Take the robust mutex for life.  When this process dies or calls execve,
 * however suddenly, the kernel sets FUTEX_OWNER_DIED in it (Linux
 * Documentation/locking/robust-futexes.rst) and peers see it with one load.
 */
static void start_heartbeat(pthread_mutex_t *alive)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(alive, &attributes);
    pthread_mutex_lock(alive);
}

/**
 * A core dump holds what the allocator has taken: of a shared mapping Linux
 * would write all, and allocate a page for each hole to do so.
 */
static void leave_out_of_dumps(void *start, uint64_t bytes, bool out)
{
    syscall(SYS_madvise, start, bytes, out ? MADV_DONTDUMP : MADV_DODUMP); /* a wish only */
}

static bool create(void)
{
    if (margay_present())
        return false; /* all memory is reachable there */
    job_identify(&arena.job);
    uint64_t bytes = arena.job.arena_bytes ? arena.job.arena_bytes : ARENA_MAX_BYTES;
    bytes -= bytes % GRANULE_BYTES;
    if (arena.job.rank < 0 || bytes < ARENA_MIN_BYTES || bytes > ARENA_MAX_BYTES ||
        address_space_is_limited() || is_longer_than_a_file_may_be(bytes))
        return false;
    int fd = open_memfd(bytes);
    if (fd < 0)
        return false;
    void *base = raw_mmap((void *)ARENA_BASE, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (base != (void *)ARENA_BASE) {
        if (base != MAP_FAILED) /* a kernel before 4.17 takes it as a hint */
            raw_munmap(base, bytes);
        close(fd);
        return false;
    }
    leave_out_of_dumps(base, bytes, true);
    arena.bytes = bytes;
    arena.fd = fd;
    fstat(fd, &arena.file);
    arena.pages_used[0] = GRANULE_PAGES; /* the header's granule */
    arena.next = 1;
    struct arena_header *h = header();
    h->abi = SMARTMAP_ABI;
    h->rank = arena.job.rank;
    h->pid = getpid();
    h->job = arena.job.key;
    h->bytes = bytes;
    start_heartbeat(&h->alive);
    atomic_thread_fence(memory_order_release);
    h->magic = ARENA_MAGIC;
    return true;
}

void arena_start(void)
{
    int untried = 0;
    if (atomic_load_explicit(&arena.state, memory_order_acquire) == 2)
        return;
    if (!atomic_compare_exchange_strong(&arena.state, &untried, 1))
        return; /* a nested call of ours: served by Linux */
    int saved = errno;
    arena.present = create();
    errno = saved;
    atomic_store_explicit(&arena.state, 2, memory_order_release);
    if (arena.present)
        fork_register();
}

/** Runs first where no allocation has come before it. */
__attribute__((constructor(101))) static void start_early(void)
{
    arena_start();
}

bool arena_contains(const void *address, size_t bytes)
{
    uint64_t start = (uint64_t)address;
    return arena.present && start >= ARENA_BASE &&
           start - ARENA_BASE <= arena.bytes &&
           bytes <= arena.bytes - (start - ARENA_BASE);
}

const struct arena_header *arena_own(void)
{
    return arena.present && !arena.forked ? header() : NULL;
}

int arena_rank(void)
{
    return arena.present && !arena.forked ? arena.job.rank : -1;
}

uint32_t smartmap_provider_abi(void)
{
    return SMARTMAP_ABI;
}

int smartmap_provider_rank(void)
{
    if (margay_present())
        return margay_rank();
    return arena_rank();
}

int smartmap_provider_size(void)
{
    if (margay_present())
        return margay_size();
    return arena_rank() < 0 ? 0 : arena.job.size;
}

int smartmap_provider_exports(const void *address, size_t bytes)
{
    if (margay_present())
        return margay_exports(address, bytes);
    const struct arena_header *own = arena_own();
    return own && arena_contains(address, bytes) &&
           atomic_load_explicit(&own->irregular, memory_order_relaxed) == 0;
}

int smartmap_provider_keeps(void)
{
    return !margay_present() && arena.job.keeps;
}

void arena_mark_irregular(const void *address, size_t bytes, uint32_t how)
{
    uint64_t start = (uint64_t)address;
    if (arena.present && !arena.forked && start < ARENA_BASE + arena.bytes &&
        start + bytes > ARENA_BASE)
        atomic_fetch_or(&header()->irregular, how);
}

/** First granule of `count` free ones in [from, to), or 0. */
static uint64_t find_free(uint64_t from, uint64_t to, uint64_t count,
                          uint64_t alignment)
{
    uint64_t start = (from + alignment - 1) / alignment * alignment;
    while (start + count <= to) {
        uint64_t used = start;
        while (used < start + count && arena.pages_used[used] == 0)
            used++;
        if (used == start + count)
            return start;
        start = (used + alignment) / alignment * alignment;
    }
    return 0;
}

/** Add (or take off) the pages of a range to the counts of its granules. */
static void count_pages(uint64_t offset, uint64_t bytes, bool add)
{
    while (bytes > 0) {
        uint64_t g = offset / GRANULE_BYTES;
        uint64_t part = (g + 1) * GRANULE_BYTES - offset;
        if (part > bytes)
            part = bytes;
        uint16_t pages = (uint16_t)((part + PAGE_BYTES - 1) / PAGE_BYTES);
        if (add)
            arena.pages_used[g] = (uint16_t)(arena.pages_used[g] + pages);
        else
            arena.pages_used[g] = (uint16_t)(arena.pages_used[g] > pages
                                                 ? arena.pages_used[g] - pages : 0);
        offset += part;
        bytes -= part;
    }
}

/** Memory for the allocator, zeroed; NULL when there is none. */
void *arena_take(size_t bytes)
{
    arena_start();
    if (!arena.present || bytes == 0 || bytes > arena.bytes)
        return NULL;
    uint64_t count = (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES;
    uint64_t limit = arena.bytes / GRANULE_BYTES;
    uint64_t alignment = bytes >= SEGMENT_BYTES ? SEGMENT_BYTES / GRANULE_BYTES : 1;
    lock();
    uint64_t g = find_free(arena.next, limit, count, alignment);
    if (g == 0)
        g = find_free(1, limit, count, alignment);
    if (g != 0) {
        count_pages(g * GRANULE_BYTES, bytes, true);
        arena.next = g + count;
    }
    unlock();
    if (g == 0)
        return NULL;
    void *start = (void *)(ARENA_BASE + g * GRANULE_BYTES);
    if (arena.forked && raw_mprotect(start, count * GRANULE_BYTES, PROT_READ | PROT_WRITE) != 0) {
        arena_give_back(start, bytes);
        return NULL;
    }
    if (bytes >= SEGMENT_BYTES && !arena.forked)
        syscall(SYS_madvise, start, bytes, MADV_HUGEPAGE); /* a wish only */
    leave_out_of_dumps(start, bytes, false);
    return start;
}

/**
 * Punch pages out; they read as zeros afterwards.  It goes through the public
 * madvise, where Open MPI and UCX have put the hooks of their registration
 * caches: these must hear that the frames are gone.
 */
void arena_drop_pages(void *address, size_t bytes)
{
    int saved = errno;
    if (madvise(address, bytes, arena.forked ? MADV_DONTNEED : MADV_REMOVE) != 0)
        memset(address, 0, bytes);
    errno = saved;
}

/**
 * In a child that is a copy: pages in no use, which count for nothing.
 * arena_take gives access to them again.
 */
bool arena_clear(void *address, size_t bytes)
{
    return raw_mmap(address, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address;
}

/** Take memory back; false when it is not the arena's. */
bool arena_give_back(void *address, size_t bytes)
{
    if (!arena_contains(address, bytes))
        return false;
    if (!arena.forked || !arena_clear(address, bytes))
        arena_drop_pages(address, bytes);
    leave_out_of_dumps(address, bytes, true);
    lock();
    count_pages((uint64_t)address - ARENA_BASE, bytes, false);
    unlock();
    return true;
}

void arena_for_each_used(void (*visit)(uint64_t start, uint64_t bytes, void *context),
                         void *context)
{
    uint64_t limit = arena.bytes / GRANULE_BYTES;
    for (uint64_t g = 0; g < limit; g++)
        if (arena.pages_used[g] != 0)
            visit(ARENA_BASE + g * GRANULE_BYTES, GRANULE_BYTES, context);
}

/** The arena's file, or -1: the program has closed it, or opened another in its place. */
int arena_descriptor(void)
{
    struct stat now;
    bool same = fstat(arena.fd, &now) == 0 && now.st_dev == arena.file.st_dev &&
                now.st_ino == arena.file.st_ino;
    return same ? arena.fd : -1;
}

void arena_become_private(void)
{
    arena.forked = true;
    unlock(); /* whoever held it did not come along */
}
