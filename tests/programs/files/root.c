// chroot of a user who may not: what is wrong with the path comes first, as on Linux.
//
// Regression: it was EPERM whatever the path.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(void)
{
    static char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    int fd = open("file", O_CREAT | O_RDWR, 0700);
    need(fd >= 0 && mkdir("dir", 0700) == 0 && mkdir("closed", 0600) == 0 && symlink("loop", "loop") == 0, "files");
    check_fails(chroot("none"), ENOENT, "no file");
    check_fails(chroot("file"), ENOTDIR, "no directory");
    check_fails(chroot(longest), ENAMETOOLONG, "too long a name");
    check_fails(chroot((char *)8), EFAULT, "a bad pointer");
    check_fails(chroot("loop"), ELOOP, "a link to itself");
    check_fails(chroot("closed"), EACCES, "a directory that it may not search");
    check_fails(chroot("dir"), EPERM, "a directory");
    check_fails(chroot("/"), EPERM, "the root that it has");
    return check_done();
}
