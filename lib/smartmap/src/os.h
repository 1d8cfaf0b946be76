/*
 * Forced into every file of mimalloc at build time (gcc -include): the calls
 * by which the allocator asks Linux for memory go to the arena instead.
 * mimalloc's own sources stay as Debian ships them.
 */
#ifndef SMARTMAP_OS_H
#define SMARTMAP_OS_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <sys/mman.h>
#include <sys/types.h>

void *smartmap_os_mmap(void *hint, size_t bytes, int prot, int flags, int fd,
                       off_t offset);
int smartmap_os_munmap(void *address, size_t bytes);
int smartmap_os_madvise(void *address, size_t bytes, int advice);
int smartmap_os_mprotect(void *address, size_t bytes, int prot);

#define mmap     smartmap_os_mmap
#define munmap   smartmap_os_munmap
#define madvise  smartmap_os_madvise
#define mprotect smartmap_os_mprotect

#endif
