/*
 * What mimalloc takes for Linux: memory comes from the arena while there is
 * any, else from Linux.  Addresses tell the two apart on the way back.
 */
#define _GNU_SOURCE
#include "os.h"
#undef mmap
#undef munmap
#undef madvise
#undef mprotect
#include "internal.h"

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
