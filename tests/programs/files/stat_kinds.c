// stat, lstat, fstat and fstatat on a file, a directory, links, a FIFO, a
// device and a pipe: types, sizes, modes, link counts, identities.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int main(void)
{
    struct stat a, b;
    umask(0);
    int fd = open("file", O_CREAT | O_RDWR, 0751);
    need(fd >= 0 && write(fd, "12345", 5) == 5, "file");
    need(mkdir("dir", 0700) == 0 && symlink("file", "soft") == 0 && link("file", "hard") == 0, "names");
    need(symlink("nowhere", "dangling") == 0 && mkfifo("fifo", 0622) == 0, "more names");

    check(stat("file", &a) == 0 && S_ISREG(a.st_mode), "stat: a regular file");
    check(a.st_size == 5 && (a.st_mode & 07777) == 0751 && a.st_nlink == 2, "5 bytes, mode 0751, 2 names");
    check(a.st_uid == geteuid(), "owned by the caller");
    check(a.st_blksize > 0 && a.st_blocks >= 0, "block counts make sense");
    check(fstat(fd, &b) == 0 && b.st_ino == a.st_ino && b.st_dev == a.st_dev, "fstat: the same inode");
    check(stat("hard", &b) == 0 && b.st_ino == a.st_ino, "a hard link: the same inode");
    check(stat("soft", &b) == 0 && b.st_ino == a.st_ino, "stat follows a symbolic link");
    check(lstat("soft", &b) == 0 && S_ISLNK(b.st_mode) && b.st_size == 4, "lstat does not: a link of 4 bytes");
    check_fails(stat("dangling", &b), ENOENT, "stat of a dangling link");
    check(lstat("dangling", &b) == 0 && b.st_size == 7, "lstat of it works");
    check(stat("dir", &b) == 0 && S_ISDIR(b.st_mode) && (b.st_mode & 07777) == 0700, "a directory, 0700");
    check(stat("fifo", &b) == 0 && S_ISFIFO(b.st_mode) && (b.st_mode & 07777) == 0622, "a FIFO, 0622");
    check(stat("/dev/null", &b) == 0 && S_ISCHR(b.st_mode), "/dev/null is a character device");
    check(major(b.st_rdev) == 1 && minor(b.st_rdev) == 3, "number 1:3");

    int ends[2];
    need(pipe(ends) == 0, "pipe");
    check(fstat(ends[0], &b) == 0 && S_ISFIFO(b.st_mode), "a pipe's end is a FIFO");
    check_fails(fstat(99, &b), EBADF, "fstat of a closed descriptor");

    int dir = open(".", O_RDONLY | O_DIRECTORY);
    check(fstatat(dir, "soft", &b, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(b.st_mode), "fstatat NOFOLLOW");
    check(fstatat(dir, "soft", &b, 0) == 0 && S_ISREG(b.st_mode), "fstatat following");
    check(fstatat(fd, "", &b, AT_EMPTY_PATH) == 0 && b.st_ino == a.st_ino, "AT_EMPTY_PATH is the descriptor");
    check_fails(fstatat(dir, "soft", &b, 0x40000000), EINVAL, "an unknown flag");

    check(chmod("file", 0604) == 0 && stat("file", &b) == 0 && (b.st_mode & 07777) == 0604, "chmod");
    check(fchmod(fd, 0400) == 0 && stat("file", &b) == 0 && (b.st_mode & 07777) == 0400, "fchmod");
    check(unlink("hard") == 0 && fstat(fd, &b) == 0 && b.st_nlink == 1, "one name left");
    check(unlink("file") == 0 && fstat(fd, &b) == 0 && b.st_nlink == 0, "none left, still open");
    return check_done();
}
