// fcntl record locks and flock held by the program itself, O_NONBLOCK on a
// pipe, FIONREAD, and terminal requests on what is no terminal.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <termios.h>

static int lock(int fd, int cmd, short type, off_t start, off_t len)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    int result = fcntl(fd, cmd, &l);
    return result == -1 ? -1 : cmd == F_GETLK ? l.l_type : 0;
}

int main(void)
{
    char buf[8192] = {0};
    int left = -1, ends[2];
    int fd = open("f", O_CREAT | O_RDWR, 0600), other = open("f", O_RDWR);
    need(fd >= 0 && other >= 0 && pipe(ends) == 0, "set-up");

    check(lock(fd, F_SETLK, F_WRLCK, 0, 100) == 0, "a write lock on 100 bytes");
    check(lock(other, F_GETLK, F_WRLCK, 0, 10) == F_UNLCK, "does not conflict with its own process");
    check(lock(other, F_SETLK, F_RDLCK, 50, 10) == 0, "the middle turned into a read lock");
    check(lock(fd, F_SETLKW, F_UNLCK, 0, 0) == 0, "all unlocked");
    check_fails(lock(fd, F_SETLK, 77, 0, 1), EINVAL, "an unknown kind of lock");
    check(flock(fd, LOCK_EX) == 0, "flock, exclusive");
    check_fails(flock(other, LOCK_EX | LOCK_NB), EAGAIN, "flock through a second open");
    check(flock(fd, LOCK_UN) == 0 && flock(other, LOCK_SH | LOCK_NB) == 0, "free again");

    check(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK on a pipe");
    check_fails(read(ends[0], buf, 1), EAGAIN, "reading it while empty");
    check(ioctl(ends[0], FIONREAD, &left) == 0 && left == 0, "FIONREAD: 0 bytes");
    check(write(ends[1], buf, 3000) == 3000, "3000 bytes written");
    check(ioctl(ends[0], FIONREAD, &left) == 0 && left == 3000, "FIONREAD: 3000 bytes");
    check(read(ends[0], buf, 8192) == 3000, "read in one go");
    need(write(fd, buf, 500) == 500 && lseek(fd, 120, SEEK_SET) == 120, "file");
    check(ioctl(fd, FIONREAD, &left) == 0 && left == 380, "FIONREAD on a file: what is left of it");

    struct termios t;
    struct winsize w;
    check_fails(tcgetattr(fd, &t), ENOTTY, "TCGETS on a file");
    check_fails(ioctl(ends[0], TIOCGWINSZ, &w), ENOTTY, "TIOCGWINSZ on a pipe");
    check(isatty(fd) == 0 && isatty(ends[1]) == 0, "isatty says no");
    check_fails(ioctl(99, FIONREAD, &left), EBADF, "ioctl on a closed descriptor");
    check_fails(ioctl(fd, 0xdeadbeef, &left), ENOTTY, "an unknown request");
    check_fails(ioctl(ends[0], FIONREAD, (int *)8), EFAULT, "a bad pointer");
    return check_done();
}
