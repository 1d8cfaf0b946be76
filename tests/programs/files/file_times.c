// Times of files: set exactly with utimensat and futimens, read back to the
// nanosecond, changed by writing, kept by UTIME_OMIT.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

int main(void)
{
    struct stat st;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    struct timespec set[2] = {{1000000000, 123456789}, {1600000000, 987654321}};
    check(utimensat(AT_FDCWD, "f", set, 0) == 0, "utimensat");
    check(stat("f", &st) == 0, "stat");
    check(st.st_atim.tv_sec == 1000000000 && st.st_atim.tv_nsec == 123456789, "the access time to the nanosecond");
    check(st.st_mtim.tv_sec == 1600000000 && st.st_mtim.tv_nsec == 987654321, "the modification time too");
    set[0].tv_nsec = UTIME_OMIT;
    set[1].tv_sec = 5;
    set[1].tv_nsec = 0;
    check(futimens(fd, set) == 0 && fstat(fd, &st) == 0, "futimens with UTIME_OMIT");
    check(st.st_atim.tv_sec == 1000000000 && st.st_mtim.tv_sec == 5, "one kept, one set");
    check(write(fd, "x", 1) == 1 && fstat(fd, &st) == 0, "a write");
    check(st.st_mtim.tv_sec > 1600000000, "brings the modification time to now");
    check(st.st_atim.tv_sec == 1000000000, "and leaves the access time");
    struct timespec before = st.st_mtim;
    check(chmod("f", 0640) == 0 && stat("f", &st) == 0, "chmod");
    check(st.st_mtim.tv_sec == before.tv_sec && st.st_mtim.tv_nsec == before.tv_nsec, "keeps the modification time");
    check(st.st_ctim.tv_sec >= before.tv_sec, "and moves the change time");
    set[1].tv_nsec = 1000000000;
    check_fails(futimens(fd, set), EINVAL, "nanoseconds out of range");
    check_fails(utimensat(AT_FDCWD, "absent", NULL, 0), ENOENT, "a file that is not there");
    need(symlink("f", "l") == 0, "symlink");
    set[0] = (struct timespec){7, 0};
    set[1] = (struct timespec){8, 0};
    check(utimensat(AT_FDCWD, "l", set, AT_SYMLINK_NOFOLLOW) == 0, "the link's own times");
    check(lstat("l", &st) == 0 && st.st_mtim.tv_sec == 8, "are set");
    check(stat("f", &st) == 0 && st.st_mtim.tv_sec != 8, "those of its target are not");
    return check_done();
}
