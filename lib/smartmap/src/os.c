/*
 * What mimalloc takes for Linux: memory comes from the arena while there is
 * any, else from Linux.  Addresses tell the two apart on the way back.
 */
#define _GNU_SOURCE
#include <mimalloc.h>

#include "os.h"
#undef mmap
#undef munmap
#undef madvise
#undef mprotect
#include "internal.h"

/**
 * Freed memory is likely to be wanted again by the program's next step, and a
 * page of it costs 2 us then: so it is kept for longer than a step takes.
 * Before mimalloc's own constructor, which looks whether the environment sets it.
 */
__attribute__((constructor(101))) static void keep_freed_memory(void)
{
    enum { KEPT_MS = 10000 }; /* mimalloc's own: 25 */
    mi_option_set_default(mi_option_decommit_delay, KEPT_MS);
}

void *smartmap_os_mmap(void *hint, size_t bytes, int prot, int flags, int fd,
                       off_t offset)
{
    if (!(flags & MAP_FIXED)) {
        void *start = arena_take(bytes);
        if (start)
            return start;
    }
    return mmap(hint, bytes, prot, flags, fd, offset);
}

int smartmap_os_munmap(void *address, size_t bytes)
{
    return arena_give_back(address, bytes) ? 0 : munmap(address, bytes);
}

int smartmap_os_madvise(void *address, size_t bytes, int advice)
{
    if (!arena_contains(address, bytes))
        return madvise(address, bytes, advice);
    if (advice == MADV_DONTNEED || advice == MADV_FREE)
        arena_drop_pages(address, bytes);
    return 0;
}

int smartmap_os_mprotect(void *address, size_t bytes, int prot)
{
    /* Committing and decommitting: the arena is always accessible. */
    return arena_contains(address, bytes) ? 0 : mprotect(address, bytes, prot);
}
