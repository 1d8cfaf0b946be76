/*
 * fork() after start.
 *
 * The arena is a shared mapping, so a plain fork would leave parent and child
 * on one heap.  The child must get its own copy, as POSIX says.  Just before
 * the fork (our prepare handler is registered first, so it runs last) the
 * parent copies the pages in use to a private mapping; the child moves that
 * mapping over the arena before anything else of its own runs.
 *
 * The child is no rank: it has no windows (MADV_DONTFORK) and exports nothing.
 * A parent with several threads is copied while the others run on; POSIX lets
 * its child call async-signal-safe functions only, so it cannot tell.
 * vfork and posix_spawn share the address space and need none of this.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static char *copy = MAP_FAILED; /* guarded by glibc's atfork lock */
static uint64_t copy_bytes;

/** Copy the resident pages of a granule; others read as zeros anyway. */
static void copy_granule(uint64_t start, uint64_t bytes)
{
    unsigned char resident[GRANULE_BYTES / PAGE_BYTES];
    bool known = syscall(SYS_mincore, start, bytes, resident) == 0;
    for (uint64_t page = 0; page < bytes / PAGE_BYTES; page++) {
        uint64_t from = start + page * PAGE_BYTES;
        if (!known || (resident[page] & 1))
            memcpy(copy + (from - ARENA_BASE), (void *)from, PAGE_BYTES);
    }
}

static void prepare(void)
{
    const struct arena_header *own = arena_own();
    copy = MAP_FAILED;
    if (!own)
        return;
    copy_bytes = own->bytes;
    copy = raw_mmap(NULL, copy_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy != MAP_FAILED)
        arena_for_each_used(copy_granule);
}

static void in_parent(void)
{
    if (copy != MAP_FAILED)
        raw_munmap(copy, copy_bytes);
    copy = MAP_FAILED;
}

static void in_child(void)
{
    static const char text[] =
        "smartmap: fork: no address space for the child's copy of the heap\n";
    if (!arena_own())
        return;
    if (copy == MAP_FAILED ||
        syscall(SYS_mremap, copy, copy_bytes, copy_bytes,
                MREMAP_MAYMOVE | MREMAP_FIXED, ARENA_BASE) != (long)ARENA_BASE) {
        syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
        syscall(SYS_exit_group, 127);
    }
    copy = MAP_FAILED;
    arena_become_private();
}

void fork_register(void)
{
    pthread_atfork(prepare, in_parent, in_child);
}
