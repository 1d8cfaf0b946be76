// Names every descriptor from 3 to 100,000 without having opened any: all of
// them must be EBADF, so that a proxy's own cannot be reached or shut.
#include "../common/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { FIRST = 3, LAST = 100000, COUNT = LAST - FIRST + 1 };

static int refused(long result) { return result == -1 && errno == EBADF; }

// The calls that do harm when they get through: for every number.
static void every_number(void)
{
    int write_ = 0, close_ = 0, getfd = 0;
    char c = 'x';
    for (int fd = FIRST; fd <= LAST; fd++) {
        write_ += refused(write(fd, &c, 1));
        getfd += refused(fcntl(fd, F_GETFD));
        close_ += refused(close(fd));
    }
    check(write_ == COUNT, "write to 3 ... 100000: EBADF each");
    check(getfd == COUNT, "fcntl of 3 ... 100000: EBADF each");
    check(close_ == COUNT, "close of 3 ... 100000: EBADF each");
}

// All other families for some of them: around powers of two and of ten, and
// every 251st.
static void some_numbers(void)
{
    struct stat st;
    int left = 0, wrong = 0;
    char c = 'x';
    for (int fd = FIRST; fd <= LAST; fd++) {
        int near = (fd & (fd - 1)) == 0 || (fd & (fd + 1)) == 0 || fd % 1000 == 0 || fd % 1000 == 999;
        if (fd % 251 != 0 && !near)
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
    struct rlimit limit;
    for (int fd = FIRST; fd < 1024; fd++)
        close(fd); // what was inherited
    need(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    every_number();
    some_numbers();

    // Placing a descriptor on a number: allowed below the soft limit only.
    int right = 0;
    for (int fd = FIRST; fd <= LAST; fd++)
        right += (rlim_t)fd < limit.rlim_cur ? dup2(2, fd) == fd && close(fd) == 0 : refused(dup2(2, fd));
    check(right == COUNT, "dup2 works below the soft limit and nowhere else");
    check(syscall(SYS_close_range, 3u, ~0u, 0u) == 0, "close_range from 3 to the end");
    DIR *dir = opendir("/proc/self/fd");
    int shown = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        shown += e->d_name[0] != '.';
    check(dir && shown == 4, "/proc/self/fd shows 0, 1, 2 and its own");
    check(write(2, "", 0) == 0 && getppid() > 0, "and the program goes on");
    return check_done();
}
