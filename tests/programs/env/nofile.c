// Runs out of descriptors: opens until EMFILE at the soft limit, for every way
// of making one; closing one lets one be made; nothing above the limit is named.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(void)
{
    struct rlimit r;
    int ends[2], fd, last = -1, count = 0;
    for (int i = 3; i < 1024; i++)
        close(i); // whatever was inherited
    need(getrlimit(RLIMIT_NOFILE, &r) == 0, "getrlimit");
    r.rlim_cur = 64;
    need(setrlimit(RLIMIT_NOFILE, &r) == 0, "setrlimit");
    while ((fd = open("/dev/null", O_RDWR)) >= 0) {
        last = fd;
        count++;
    }
    check_fails(fd, EMFILE, "opening until the limit of 64");
    check(last == 63 && count == 61, "the last is 63, 61 were opened");
    check_fails(dup(0), EMFILE, "dup");
    check_fails(pipe(ends), EMFILE, "pipe");
    check_fails(open(".", O_RDONLY | O_DIRECTORY), EMFILE, "a directory");
    check_fails(fcntl(0, F_DUPFD, 10), EMFILE, "F_DUPFD");
    check_fails(fcntl(0, F_DUPFD, 64), EINVAL, "F_DUPFD from the limit");
    check_fails(dup2(0, 64), EBADF, "dup2 to the limit");
    check(dup2(0, 63) == 63, "dup2 below it");

    close(17);
    check_fails(pipe(ends), EMFILE, "one free is too few for a pipe");
    check(open("/dev/null", O_RDONLY) == 17, "but not lost");
    close(30);
    close(20);
    check(pipe(ends) == 0 && ends[0] == 20 && ends[1] == 30, "a pipe gets the lowest two");

    r.rlim_cur = 40;
    need(setrlimit(RLIMIT_NOFILE, &r) == 0, "setrlimit");
    check(fcntl(50, F_GETFD) >= 0, "a lower limit leaves open ones open");
    check(close(50) == 0, "they can be closed");
    check_fails(open("/dev/null", O_RDONLY), EMFILE, "but none be made");
    for (int i = 3; i < 64; i++)
        close(i);
    check(open("/dev/null", O_RDONLY) == 3, "all closed, the first is 3 again");
    r.rlim_cur = 4096 < r.rlim_max ? 4096 : r.rlim_max;
    need(setrlimit(RLIMIT_NOFILE, &r) == 0, "setrlimit");
    for (count = 0; (fd = open("/dev/null", O_RDONLY)) >= 0; count++)
        ;
    check(errno == EMFILE && count == (int)r.rlim_cur - 4, "all of %d can be used", (int)r.rlim_cur);
    return check_done();
}
