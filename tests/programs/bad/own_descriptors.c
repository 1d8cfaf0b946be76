// Names descriptors without having opened any: the lowest, and those around the
// soft and the hard limit, behind which a proxy has its own. All of them must be
// EBADF, so that those cannot be reached or shut.
#include "../common/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { FIRST = 3, NEAR = 2000 };

static struct rlimit limit;

static int near(int fd, rlim_t number) { return fd + (rlim_t)64 >= number && (rlim_t)fd < number + NEAR; }

// The next number to try; negative behind the last.
static int following(int fd)
{
    rlim_t last = limit.rlim_max + NEAR;
    do
        fd++;
    while (fd > NEAR && (rlim_t)fd <= last && !near(fd, limit.rlim_cur) && !near(fd, limit.rlim_max));
    return fd <= NEAR || (rlim_t)fd <= last ? fd : -1;
}

static int refused(long result) { return result == -1 && errno == EBADF; }

// The calls that do harm when they get through: for every number.
static void every_number(void)
{
    int write_ = 0, close_ = 0, getfd = 0, count = 0;
    char c = 'x';
    for (int fd = FIRST; fd >= 0; fd = following(fd)) {
        count++;
        write_ += refused(write(fd, &c, 1));
        getfd += refused(fcntl(fd, F_GETFD));
        close_ += refused(close(fd));
    }
    check(write_ == count, "write: EBADF each");
    check(getfd == count, "fcntl: EBADF each");
    check(close_ == count, "close: EBADF each");
}

// All other families for some of them.
static void some_numbers(void)
{
    struct stat st;
    int left = 0, wrong = 0;
    char c = 'x';
    for (int fd = FIRST; fd >= 0; fd = following(fd)) {
        if (fd % 16 != 0 && fd % 16 != 15)
            continue;
        struct iovec v = {&c, 1};
        wrong += !refused(read(fd, &c, 1)) + !refused(pread(fd, &c, 1, 0)) + !refused(writev(fd, &v, 1));
        wrong += !refused(dup(fd)) + !refused(dup3(fd, 10, 0)) + !refused(fcntl(fd, F_GETFL));
        wrong += !refused(fstat(fd, &st)) + !refused(lseek(fd, 0, SEEK_CUR)) + !refused(ftruncate(fd, 0));
        wrong += !refused(ioctl(fd, FIONREAD, &left)) + !refused(fsync(fd)) + !refused(fchdir(fd));
        wrong += !refused(openat(fd, "x", O_RDONLY)) + !refused(syscall(SYS_getdents64, fd, &st, sizeof st));
    }
    check(wrong == 0, "14 other calls for some of them: EBADF each");
}

int main(void)
{
    for (int fd = FIRST; fd < 1024; fd++)
        close(fd); // what was inherited
    need(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    every_number();
    some_numbers();

    // Placing a descriptor on a number: allowed below the soft limit only.
    int right = 0, count = 0;
    for (int fd = FIRST; fd >= 0; fd = following(fd), count++)
        right += (rlim_t)fd < limit.rlim_cur ? dup2(2, fd) == fd && close(fd) == 0 : refused(dup2(2, fd));
    check(right == count, "dup2 works below the soft limit and nowhere else");
    check(syscall(SYS_close_range, 3u, ~0u, 0u) == 0, "close_range from 3 to the end");
    DIR *dir = opendir("/proc/self/fd");
    int shown = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        shown += e->d_name[0] != '.';
    check(dir && shown == 4, "/proc/self/fd shows 0, 1, 2 and its own");
    check(write(2, "", 0) == 0 && getppid() > 0, "and the program goes on");
    return check_done();
}
