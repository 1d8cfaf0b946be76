// vmsplice to and from a pipe: what goes in comes out, a full pipe takes a part, an empty one is not waited for on request; errors.
// ustat and sysfs say something of file systems, or are not there.
//
// Regression: ENOSYS.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

enum { PART = 3000, MUCH = 1 << 20 };

static char from[MUCH], to[MUCH];

static void there_and_back(void)
{
    int ends[2];
    struct iovec two[2] = {{from, PART}, {from + 5000, PART}}, one = {to, sizeof to}, all = {from, MUCH};
    need(pipe(ends) == 0, "pipe");
    check(vmsplice(ends[1], two, 2, SPLICE_F_GIFT) == 2 * PART, "two pieces go into a pipe");
    check(vmsplice(ends[0], &one, 1, 0) == 2 * PART && memcmp(to, from, PART) == 0 && memcmp(to + PART, from + 5000, PART) == 0,
          "and come out");
    check_fails(vmsplice(ends[0], &one, 1, SPLICE_F_NONBLOCK), EAGAIN, "it is empty");
    long some = vmsplice(ends[1], &all, 1, SPLICE_F_NONBLOCK);
    check(some > 0 && some < MUCH, "a part of much");
    check_fails(vmsplice(ends[1], &all, 1, SPLICE_F_NONBLOCK), EAGAIN, "it is full");
    need(read(ends[0], to, (size_t)some) == some, "read");
    check(memcmp(to, from, (size_t)some) == 0, "what came is right");
    some = vmsplice(ends[1], &all, 1, 0);
    check(some > 0 && some < MUCH, "a part, though it might wait");
    check_fails(vmsplice(ends[1], (void *)8, 1, 0), EFAULT, "a bad pointer");
    check_fails(vmsplice(ends[1], two, 2, 16), EINVAL, "no flag");
    check_fails(vmsplice(ends[1], two, 1025, 0), EINVAL, "too many pieces");
    check_fails(vmsplice(open("f", O_CREAT | O_RDWR, 0600), two, 2, 0), EBADF, "a file");
    check_fails(vmsplice(-1, two, 2, 0), EBADF, "no descriptor");
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    check_fails(vmsplice(ends[1], two, 1, 0), EPIPE, "a pipe without a reader");
}

static int missing(long result) { return result == -1 && errno == ENOSYS; }

static void file_systems(void)
{
    struct stat at;
    char about[64], name[64];
    need(stat(".", &at) == 0, "stat");
    check(syscall(SYS_ustat, makedev(9999, 1), about) == -1 && (errno == EINVAL || errno == ENOSYS), "no file system");
    long proc = syscall(SYS_sysfs, 1, "proc"), count = syscall(SYS_sysfs, 3);
    check(missing(proc) || (proc >= 0 && proc < count && syscall(SYS_sysfs, 2, proc, name) == 0 && strcmp(name, "proc") == 0),
          "kinds have numbers and names");
    check(missing(proc) || (syscall(SYS_sysfs, 1, 8) == -1 && errno == EFAULT), "a bad pointer");
    check(missing(proc) || (syscall(SYS_sysfs, 1, "no such thing") == -1 && errno == EINVAL), "no kind");
    check(missing(proc) || (syscall(SYS_sysfs, 2, proc, 8) == -1 && errno == EFAULT), "a bad pointer to say it to");
}

int main(void)
{
    seq_fill(from, 0, MUCH / 8);
    there_and_back();
    file_systems();
    return check_done();
}
