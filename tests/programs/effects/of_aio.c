// What the local calls of kernel AIO do, and unshare: bytes are in the file, results come once, a context that is gone is gone.
//
// Regression: ENOSYS, EPERM.
#include "../common/effects.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <sys/syscall.h>

int main(void)
{
    aio_context_t context = 0;
    char back[4] = "";
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)fd, .aio_buf = (uintptr_t) "abc", .aio_nbytes = 3};
    struct iocb *list[2] = {&one, &one};
    struct io_event event[2] = {{0}, {0}};
    struct timespec none = {0, 0};
    call("io_setup");
    check(syscall(SYS_io_setup, 4, &context) == 0 && context != 0, "a context");
    call("io_submit");
    check(syscall(SYS_io_submit, context, 2, list) == 2, "two writes");
    call("io_getevents");
    check(syscall(SYS_io_getevents, context, 1, 1, event, NULL) == 1 && event[0].res == 3, "the result of one");
    check(pread(fd, back, 3, 0) == 3 && memcmp(back, "abc", 3) == 0, "the file has it");
    call("io_pgetevents");
    check(syscall(SYS_io_pgetevents, context, 1, 2, event, NULL, NULL) == 1 && event[0].obj == (uintptr_t)&one, "of the other");
    check(syscall(SYS_io_pgetevents, context, 0, 2, event, &none, NULL) == 0, "there are no more");
    call("io_cancel");
    check_fails(syscall(SYS_io_cancel, context, &one, event), EINVAL, "there is nothing to cancel");
    call("io_destroy");
    check(syscall(SYS_io_destroy, context) == 0, "the context is gone");
    check_fails(syscall(SYS_io_submit, context, 1, list), EINVAL, "and takes nothing");
    call("unshare");
    check(unshare(CLONE_FILES | CLONE_FS) == 0 && fcntl(fd, F_GETFD) == 0, "descriptors stay");
    check(chdir("/") == 0 && unlink("file") != 0, "the folder is the process's own");
    return check_done();
}
