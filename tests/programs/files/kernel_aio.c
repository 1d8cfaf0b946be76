// Kernel AIO by its calls: reads, writes and syncs in a file and a pipe, with vectors, their results and order, an eventfd that counts
// them, waits with and without a limit; errors.
//
// Regression: ENOSYS.
#include "../common/check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static long setup(unsigned events, aio_context_t *context) { return syscall(SYS_io_setup, events, context); }
static long destroy(aio_context_t context) { return syscall(SYS_io_destroy, context); }
static long submit(aio_context_t context, long count, struct iocb **requests)
{
    return syscall(SYS_io_submit, context, count, requests);
}
static long events(aio_context_t context, long least, long most, struct io_event *to, struct timespec *limit)
{
    return syscall(SYS_io_getevents, context, least, most, to, limit);
}

static struct iocb request(int operation, int fd, const void *at, size_t bytes, long long offset)
{
    struct iocb one;
    memset(&one, 0, sizeof one);
    one.aio_lio_opcode = (uint16_t)operation;
    one.aio_fildes = (uint32_t)fd;
    one.aio_buf = (uintptr_t)at;
    one.aio_nbytes = bytes;
    one.aio_offset = offset;
    return one;
}

static aio_context_t context;
static struct timespec none;

// Submits one, and its result.
static long long done(struct iocb *one)
{
    struct io_event event = {0, 0, -9999, 0};
    if (submit(context, 1, &one) != 1 || events(context, 1, 1, &event, NULL) != 1 || event.obj != (uintptr_t)one)
        return -9999;
    return event.res;
}

static void in_a_file(int fd)
{
    static char from[10000], to[10000];
    seq_fill(from, 0, sizeof from / 8);
    struct iocb write = request(IOCB_CMD_PWRITE, fd, from, sizeof from, 0), read = request(IOCB_CMD_PREAD, fd, to, sizeof to, 5000);
    check(done(&write) == sizeof from, "a write");
    check(done(&read) == 5000 && memcmp(to, from + 5000, 5000) == 0, "a read up to the end");
    struct iovec two[2] = {{to, 100}, {to + 1000, 200}};
    struct iocb vectored = request(IOCB_CMD_PREADV, fd, two, 2, 40);
    check(done(&vectored) == 300 && memcmp(to, from + 40, 100) == 0 && memcmp(to + 1000, from + 140, 200) == 0, "with vectors");
    struct iocb sync = request(IOCB_CMD_FSYNC, fd, NULL, 0, 0), data = request(IOCB_CMD_FDSYNC, fd, NULL, 0, 0);
    check(done(&sync) == 0 && done(&data) == 0, "syncs");
    struct iocb many[8], *list[8];
    for (int i = 0; i < 8; i++) {
        many[i] = request(IOCB_CMD_PREAD, fd, to + 100 * i, 100, 100 * i);
        many[i].aio_data = 1000u + (unsigned)i;
        list[i] = &many[i];
    }
    struct io_event got[8];
    check(submit(context, 8, list) == 8 && events(context, 8, 8, got, NULL) == 8, "eight at once");
    unsigned seen = 0;
    for (int i = 0; i < 8; i++)
        if (got[i].data - 1000 < 8 && got[i].obj == (uintptr_t)list[got[i].data - 1000] && got[i].res == 100 && got[i].res2 == 0)
            seen |= 1u << (got[i].data - 1000);
    check(seen == 0xff && memcmp(to, from, 800) == 0, "each with its result");
    check(events(context, 0, 8, got, &none) == 0, "and there are no others");
}

static void in_a_pipe(void)
{
    int ends[2], count = eventfd(0, EFD_NONBLOCK);
    char to[8] = "";
    eventfd_t value = 0;
    need(pipe(ends) == 0 && count >= 0, "pipe");
    struct iocb write = request(IOCB_CMD_PWRITE, ends[1], "through", 7, 0), read = request(IOCB_CMD_PREAD, ends[0], to, 8, 0);
    write.aio_flags = read.aio_flags = IOCB_FLAG_RESFD;
    write.aio_resfd = read.aio_resfd = (uint32_t)count;
    check(done(&write) == 7 && done(&read) == 7 && memcmp(to, "through", 7) == 0, "a pipe");
    check(eventfd_read(count, &value) == 0 && value == 2, "an eventfd has counted both");
    struct iocb sync = request(IOCB_CMD_FSYNC, ends[0], NULL, 0, 0), *list = &sync;
    check_fails(submit(context, 1, &list), EINVAL, "a pipe has no disk");
    write.aio_resfd = (uint32_t)ends[0], list = &write;
    check_fails(submit(context, 1, &list), EINVAL, "what counts is no eventfd");
    write.aio_resfd = 77;
    check_fails(submit(context, 1, &list), EBADF, "nor a descriptor");
    close(ends[0]);
    close(ends[1]);
    close(count);
}

static void waits(void)
{
    struct timespec soon = {0, 20000000};
    struct io_event got;
    int64_t start = clock_ns(CLOCK_MONOTONIC);
    check(events(context, 1, 1, &got, &soon) == 0 && clock_ns(CLOCK_MONOTONIC) - start >= 20000000, "nothing comes in time");
    check(events(context, 1, 1, &got, &none) == 0, "nor at once");
    sigset_t set;
    sigfillset(&set);
    struct {
        sigset_t *set;
        size_t bytes;
    } mask = {&set, 8};
    check(syscall(SYS_io_pgetevents, context, 1, 1, &got, &soon, &mask) == 0, "nor with a mask");
    mask.bytes = 7;
    check_fails(syscall(SYS_io_pgetevents, context, 1, 1, &got, &soon, &mask), EINVAL, "a mask of another length");
}

static void refused(int fd)
{
    char byte, *volatile nowhere = (char *)8;
    aio_context_t other = 0;
    struct io_event got;
    struct iocb good = request(IOCB_CMD_PREAD, fd, &byte, 1, 0), bad = good, *list[2] = {&good, &bad};
    check_fails(setup(0, &other), EINVAL, "no events");
    check_fails(setup(1, (void *)nowhere), EFAULT, "a bad pointer");
    check_fails(setup(1, &context), EINVAL, "a context that is there");
    check_fails(submit(context, -1, list), EINVAL, "less than none");
    check(submit(context, 0, list) == 0, "none");
    check_fails(submit(0, 1, list), EINVAL, "no context");
    check_fails(submit(context, 1, (void *)nowhere), EFAULT, "a bad list");
    bad.aio_fildes = 77;
    check(submit(context, 2, list) == 1 && events(context, 1, 2, &got, NULL) == 1, "those before a bad one");
    list[0] = &bad;
    check_fails(submit(context, 1, list), EBADF, "no descriptor");
    bad = good, bad.aio_lio_opcode = 99;
    check_fails(submit(context, 1, list), EINVAL, "no operation");
    bad = good, bad.aio_reserved2 = 1;
    check_fails(submit(context, 1, list), EINVAL, "what is reserved");
    bad = good, bad.aio_buf = (uintptr_t)nowhere;
    check(done(&bad) == -EFAULT, "a bad buffer is a result");
    list[0] = (void *)nowhere;
    check_fails(submit(context, 1, list), EFAULT, "a bad request");
    check_fails(events(context, 2, 1, &got, NULL), EINVAL, "more than there is room for");
    check_fails(events(context, -1, 1, &got, NULL), EINVAL, "less than none");
    check_fails(events(0, 0, 1, &got, NULL), EINVAL, "no context");
    check_fails(syscall(SYS_io_cancel, context, &good, &got), EINVAL, "nothing to cancel");
    check_fails(destroy(0), EINVAL, "no context to destroy");
}

int main(void)
{
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    check(setup(16, &context) == 0 && context != 0, "a context");
    in_a_file(fd);
    in_a_pipe();
    waits();
    refused(fd);
    check(destroy(context) == 0, "it is destroyed");
    check_fails(destroy(context), EINVAL, "once");
    unlink("file");
    return check_done();
}
