// getcwd, chdir, fchdir: relative names follow, buffers that are too small are
// refused, a removed directory is noticed, paths of more than 4000 bytes work.
#include "../common/check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int main(void)
{
    static char start[PATH_MAX], now[PATH_MAX];
    need(getcwd(start, sizeof start) != NULL, "getcwd");
    check(start[0] == '/', "an absolute path");
    check(syscall(SYS_getcwd, now, sizeof now) == (long)strlen(start) + 1, "the system call counts the final 0");
    check_fails(syscall(SYS_getcwd, now, strlen(start)), ERANGE, "a buffer one byte too small");
    check_fails(syscall(SYS_getcwd, 8, PATH_MAX), EFAULT, "a bad pointer");

    int here = open(".", O_RDONLY | O_DIRECTORY);
    need(here >= 0 && mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0, "mkdir");
    check(chdir("a/b") == 0 && getcwd(now, sizeof now) && strcmp(now + strlen(start), "/a/b") == 0, "chdir to a/b");
    close(open("made-inside", O_CREAT | O_WRONLY, 0600));
    check(access("../../a/b/made-inside", F_OK) == 0, "relative names follow");
    check(chdir("..") == 0 && getcwd(now, sizeof now) && strcmp(now + strlen(start), "/a") == 0, "up by one");
    check(fchdir(here) == 0 && getcwd(now, sizeof now) && strcmp(now, start) == 0, "fchdir back");
    check_fails(chdir("absent"), ENOENT, "chdir to nothing");
    check_fails(chdir("a/b/made-inside"), ENOTDIR, "chdir to a file");
    check_fails(fchdir(99), EBADF, "fchdir to a closed descriptor");
    check(getcwd(now, sizeof now) && strcmp(now, start) == 0, "refusals change nothing");

    need(mkdir("gone", 0755) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0, "rmdir");
    check(getcwd(now, sizeof now) == NULL && errno == ENOENT, "a directory that was removed");
    check_fails(open("x", O_CREAT | O_WRONLY, 0600), ENOENT, "nothing can be made in it");
    check(fchdir(here) == 0, "back");

    // 20 levels of 230 bytes: longer than one path may be.
    char name[231];
    memset(name, 'd', 230);
    name[230] = 0;
    int depth = 0;
    while (depth < 20 && mkdir(name, 0755) == 0 && chdir(name) == 0)
        depth++;
    check(depth == 20, "20 levels of long names");
    check_fails(syscall(SYS_getcwd, now, sizeof now), ENAMETOOLONG, "their path is too long for getcwd");
    while (depth-- > 0)
        need(chdir("..") == 0 && rmdir(name) == 0, "rmdir");
    check(getcwd(now, sizeof now) && strcmp(now, start) == 0, "climbed back up");
    return check_done();
}
