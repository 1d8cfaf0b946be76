/*
 * Children that are copies of a rank.
 *
 * The arena is a shared mapping, so a plain fork would leave parent and child
 * on one heap.  The child must get its own copy, as POSIX says.  Just before
 * the fork (our prepare handler is registered first, so it runs last) the
 * parent copies the pages in use to a private mapping; the child moves that
 * over the arena before anything else of its own runs.  Either is without
 * access where the heap is not in use, so that only what is counts against
 * `ulimit -d` and where Linux does not overcommit memory.
 *
 * The same is done around glibc's _Fork, which runs no handlers, and clone(3)
 * without CLONE_VM.  The bare system calls pass by every library: their child
 * shares the heap.
 *
 * The child is no rank: it has no windows (MADV_DONTFORK) and exports nothing.
 * A parent with several threads is copied while the others run on; POSIX lets
 * its child call async-signal-safe functions only, so it cannot tell.
 * vfork and posix_spawn share the address space and need none of this.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

struct copy {
    char *start;    /* of the arena's; NULL: there is none */
    uint64_t bytes; /* 0: none is needed */
    uint64_t from, to; /* of the data that was found last, while it is made */
};

static char *place_in(const struct copy *copy, uint64_t address)
{
    return copy->start + (address - ARENA_BASE);
}

static void drop(struct copy *copy)
{
    if (copy->start)
        raw_munmap(copy->start, copy->bytes);
    copy->start = NULL;
}

/**
 * The first data of the arena's file at or after `address`, in memory or swapped
 * out (mincore(2) knows the former only).  Where that cannot be told it is all.
 */
static void find_data(struct copy *copy, uint64_t address)
{
    int fd = arena_descriptor();
    copy->from = address;
    copy->to = ARENA_BASE + copy->bytes;
    long data = syscall(SYS_lseek, fd, address - ARENA_BASE, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        copy->from = copy->to; /* no more */
    long hole = data < 0 ? -1 : syscall(SYS_lseek, fd, data, SEEK_HOLE);
    if (hole >= 0) {
        copy->from = ARENA_BASE + (uint64_t)data;
        copy->to = ARENA_BASE + (uint64_t)hole;
    }
}

/** Has the arena's file this page?  To be called in the order of addresses. */
static bool is_data(struct copy *copy, uint64_t page)
{
    if (page >= copy->to)
        find_data(copy, page);
    return page >= copy->from && page < copy->to;
}

/**
 * Copy pages.  Where the program may not read one itself, as a guard page, it is
 * what the arena's file has.  A program that may not call process_vm_readv has to
 * be able to read them all.
 */
static void copy_pages(const struct copy *copy, uint64_t from, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        struct iovec local = { place_in(copy, from + done), bytes - done };
        struct iovec remote = { (void *)(from + done), bytes - done };
        long copied = syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
        if (copied < 0 && errno != EFAULT) {
            memcpy(local.iov_base, remote.iov_base, bytes - done);
            return;
        }
        if (copied <= 0) {
            copied = PAGE_BYTES;
            syscall(SYS_pread64, arena_descriptor(), local.iov_base, copied,
                    from + done - ARENA_BASE);
        }
        done += (uint64_t)copied;
    }
}

/**
 * Copy the pages of a granule that the arena's file has, swapped out or not, and
 * those that are in memory all the same: what the program has mapped over them.
 * Others read as zeros anyway.
 */
static void copy_granule(uint64_t start, uint64_t bytes, void *context)
{
    struct copy *copy = context;
    unsigned char resident[GRANULE_BYTES / PAGE_BYTES];
    if (copy->start &&
        raw_mprotect(place_in(copy, start), bytes, PROT_READ | PROT_WRITE) != 0)
        drop(copy);
    if (!copy->start)
        return;
    bool known = syscall(SYS_mincore, start, bytes, resident) == 0;
    uint64_t run = 0;
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES) {
        if (!known || (resident[at / PAGE_BYTES] & 1) || is_data(copy, start + at)) {
            run += PAGE_BYTES;
            continue;
        }
        copy_pages(copy, start + at - run, run);
        run = 0;
    }
    copy_pages(copy, start + bytes - run, run);
}

static struct copy make_copy(void)
{
    const struct arena_header *own = arena_own();
    struct copy copy = { .bytes = own ? own->bytes : 0 };
    int saved = errno;
    if (own) {
        void *at = raw_mmap(NULL, copy.bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        copy.start = at == MAP_FAILED ? NULL : at;
        arena_for_each_used(copy_granule, &copy);
    }
    errno = saved;
    return copy;
}

static void end_child(void)
{
    static const char text[] = "smartmap: fork: no memory for the child's copy of the heap\n";
    syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    syscall(SYS_exit_group, 127);
}

/** What another thread took after the copy was made is not in it, and reads as zeros. */
static void move_granule(uint64_t start, uint64_t bytes, void *context)
{
    if (syscall(SYS_mremap, place_in(context, start), bytes, bytes,
                MREMAP_MAYMOVE | MREMAP_FIXED, start) != (long)start ||
        raw_mprotect((void *)start, bytes, PROT_READ | PROT_WRITE) != 0)
        end_child();
}

/** In the child. */
static void move_in(struct copy *copy)
{
    if (copy->bytes == 0)
        return;
    if (!copy->start || !arena_clear((void *)ARENA_BASE, copy->bytes))
        end_child();
    arena_for_each_used(move_granule, copy);
    drop(copy);
    arena_become_private();
}

/* fork(3) */

static __thread struct copy forked; /* two threads may fork at once */

static void prepare(void) { forked = make_copy(); }

static void in_parent(void) { drop(&forked); }

static void in_child(void) { move_in(&forked); }

void fork_register(void)
{
    pthread_atfork(prepare, in_parent, in_child);
}

/* _Fork(3) and clone(3); either may be called by a signal's handler. */

static pid_t (*libc_fork)(void);
static int (*libc_clone)(int (*)(void *), void *, int, void *, ...);

/** Early, for dlsym may not be called by a handler. */
__attribute__((constructor(101))) static void find_libc(void)
{
    *(void **)&libc_fork = dlsym(RTLD_NEXT, "_Fork");
    *(void **)&libc_clone = dlsym(RTLD_NEXT, "clone");
}

static int fail(int error)
{
    errno = error;
    return -1;
}

EXPORT pid_t _Fork(void)
{
    if (!libc_fork)
        return fail(ENOSYS); /* glibc before 2.34 */
    struct copy copy = make_copy();
    if (copy.bytes > 0 && !copy.start)
        return fail(ENOMEM);
    pid_t child = libc_fork();
    int saved = errno;
    if (child == 0)
        move_in(&copy);
    else
        drop(&copy);
    errno = saved;
    return child;
}

struct start {
    int (*function)(void *);
    void *argument;
    struct copy copy;
};

static int start_child(void *argument)
{
    struct start *start = argument; /* in the child's copy of its parent's stack */
    move_in(&start->copy);
    return start->function(start->argument);
}

EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    va_list more;
    va_start(more, argument);
    pid_t *parent_tid = va_arg(more, pid_t *);
    void *tls = va_arg(more, void *);
    pid_t *child_tid = va_arg(more, pid_t *);
    va_end(more);
    if ((flags & CLONE_VM) || !function)
        return libc_clone(function, stack, flags, argument, parent_tid, tls, child_tid);
    struct start start = { function, argument, make_copy() };
    if (start.copy.bytes > 0 && !start.copy.start)
        return fail(ENOMEM);
    pid_t child = libc_clone(start_child, stack, flags, &start, parent_tid, tls, child_tid);
    int saved = errno;
    drop(&start.copy);
    errno = saved;
    return child;
}
