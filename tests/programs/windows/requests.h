// The requests of /dev/xpmem, as the library makes them (github.com/hpc/xpmem, include/xpmem_internal.h).
#ifndef MARGAY_REQUESTS_H
#define MARGAY_REQUESTS_H

#include "windows.h"

#include <fcntl.h>

enum { VERSION = 0x7800, MAKE, REMOVE, GET, RELEASE, ATTACH, DETACH, FORK_BEGIN, FORK_END };
enum { BY_MODE = 1, READ_ONLY = 1, READ_WRITE = 2 };

struct make { uint64_t start, bytes; int kind; uint64_t mode; int64_t segment; };
struct get { int64_t segment; int flags, kind; uint64_t value; int64_t permit; };
struct attach { int64_t permit, offset; uint64_t bytes, at; int fd, flags; };

static int device = -1;

CHECK_HELPER int request(unsigned number, void *arg) { return (int)syscall(SYS_ioctl, device, number, arg); }

// Each returns -1 and sets errno when it fails.
CHECK_HELPER int64_t make(const volatile void *start, uint64_t bytes, unsigned mode)
{
    struct make info = {.start = (uintptr_t)start, .bytes = bytes, .kind = BY_MODE, .mode = mode};
    return request(MAKE, &info) == 0 ? info.segment : -1;
}
CHECK_HELPER int64_t get(int64_t segment, int flags)
{
    struct get info = {.segment = segment, .flags = flags, .kind = BY_MODE};
    return request(GET, &info) == 0 ? info.permit : -1;
}
CHECK_HELPER void *attach_at(int64_t permit, int64_t offset, uint64_t bytes, const volatile void *at)
{
    struct attach info = {.permit = permit, .offset = offset, .bytes = bytes, .at = (uintptr_t)at, .fd = device};
    return request(ATTACH, &info) == 0 ? (void *)(uintptr_t)info.at : (void *)-1;
}
CHECK_HELPER void *attach(int64_t permit, int64_t offset, uint64_t bytes) { return attach_at(permit, offset, bytes, NULL); }
CHECK_HELPER int removed(int64_t segment) { return request(REMOVE, &segment); }
CHECK_HELPER int release(int64_t permit) { return request(RELEASE, &permit); }
CHECK_HELPER int detach(const volatile void *at)
{
    uint64_t word = (uintptr_t)at;
    return request(DETACH, &word);
}

#endif
