/*
 * Programs that treat malloc'ed memory as pages of their own: mprotect, mmap
 * with MAP_FIXED, munmap or mremap on a part of the heap.
 *
 * That stays legal, but what a peer would see through its window no longer
 * equals what Linux shows of this process.  So the arena is marked irregular,
 * from then on it is unreachable, and every copy takes the system call again.
 * Who may not make that call reads through the window where pages were only
 * protected (smartmap_shows).
 * madvise must still mean what it does for private memory: zeros, not the old
 * contents that a shared mapping would keep.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *mmap(void *address, size_t bytes, int prot, int flags, int fd,
                  off_t offset)
{
    if (flags & MAP_FIXED)
        arena_mark_irregular(address, bytes, PAGES_REMAPPED);
    return raw_mmap(address, bytes, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t bytes, int prot, int flags, int fd,
                    off_t offset) __attribute__((alias("mmap")));

EXPORT int munmap(void *address, size_t bytes)
{
    arena_mark_irregular(address, bytes, PAGES_REMAPPED);
    return raw_munmap(address, bytes);
}

EXPORT int mprotect(void *address, size_t bytes, int prot)
{
    arena_mark_irregular(address, bytes, PAGES_PROTECTED);
    return raw_mprotect(address, bytes, prot);
}

EXPORT void *mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    void *target = NULL;
    if (flags & MREMAP_FIXED) {
        va_list arguments;
        va_start(arguments, flags);
        target = va_arg(arguments, void *);
        va_end(arguments);
        arena_mark_irregular(target, new_bytes, PAGES_REMAPPED);
    }
    arena_mark_irregular(address, old_bytes, PAGES_REMAPPED);
    return (void *)syscall(SYS_mremap, address, old_bytes, new_bytes, flags, target);
}

EXPORT int madvise(void *address, size_t bytes, int advice)
{
    if (arena_own() && arena_contains(address, bytes)) {
        if (advice == MADV_FREE) /* may keep the contents, says madvise(2) */
            return 0;
        if (advice == MADV_DONTNEED)
            advice = MADV_REMOVE;
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

static void lock_granule(uint64_t start, uint64_t bytes, void *unused)
{
    (void)unused;
    syscall(SYS_mlock, start, bytes);
}

/** Lock and populate what is mapped beside arena and windows. */
static void lock_the_rest(void)
{
    char line[512];
    unsigned long start, end, ours = ARENA_BASE, windows = 1UL << SMARTMAP_SLOT_SHIFT;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start % windows != ours &&
            !arena_contains((void *)start, 0))
            syscall(SYS_mlock, start, end - start); /* no access: nothing to lock */
    if (maps)
        fclose(maps);
}

/**
 * mlockall(2) populates all mappings, which for the arena and the windows would
 * be more than any machine has.  So pages are locked as they come, and those
 * that the program has already are made to come.
 */
EXPORT int mlockall(int flags)
{
    if (!arena_contains((void *)ARENA_BASE, 0) || (flags & MCL_ONFAULT))
        return (int)syscall(SYS_mlockall, flags);
    int error = (int)syscall(SYS_mlockall, flags | MCL_ONFAULT);
    if (error != 0 || !(flags & MCL_CURRENT))
        return error;
    int saved = errno;
    lock_the_rest();
    arena_for_each_used(lock_granule, NULL);
    errno = saved;
    return 0;
}
