// access, umask and modes: what is created under which mask, and what the
// checks say about files that are, are not, or lie below a non-directory.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

int main(void)
{
    static const mode_t masks[] = {0, 022, 027, 077, 0777};
    char name[32];
    umask(0123);
    check(umask(0) == 0123, "umask gives the old mask back");
    for (int i = 0; i < 5; i++) {
        umask(masks[i]);
        snprintf(name, sizeof name, "file%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0666);
        need(fd >= 0, "create");
        close(fd);
        check(mode_of(name) == (0666 & ~masks[i]), "umask %04o: file mode %04o", masks[i], mode_of(name));
        chmod(name, 0666);
        snprintf(name, sizeof name, "dir%d", i);
        need(mkdir(name, 0777) == 0, "mkdir");
        check(mode_of(name) == (0777 & ~masks[i]), "umask %04o: directory mode %04o", masks[i], mode_of(name));
        chmod(name, 0755);
    }
    umask(01777);
    check(umask(0) == 0777, "only the permission bits count");

    check(access("file0", F_OK) == 0, "F_OK: it is there");
    check(access("file0", R_OK | W_OK) == 0, "mode 0666: readable and writable");
    check_fails(access("file0", X_OK), EACCES, "not executable, not even for root");
    check(chmod("file0", 0777) == 0 && access("file0", X_OK) == 0, "executable after chmod");
    check(access("dir0", X_OK) == 0, "a directory that can be searched");
    check_fails(access("absent", F_OK), ENOENT, "a file that is not there");
    check_fails(access("file0/x", F_OK), ENOTDIR, "below a file");
    check_fails(access("file0", 99), EINVAL, "an unknown mode");
    need(symlink("absent", "dangling") == 0, "symlink");
    check_fails(access("dangling", F_OK), ENOENT, "a dangling link");
    check(faccessat(AT_FDCWD, "file1", W_OK, 0) == 0, "faccessat");
    check(chmod("file1", 04751) == 0 && mode_of("file1") == 04751, "set-user-id bit");
    check(chmod("dir1", 01777) == 0 && mode_of("dir1") == 01777, "sticky bit");
    return check_done();
}
