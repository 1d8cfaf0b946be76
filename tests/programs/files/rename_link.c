// Names of files: rename over files and directories, hard and symbolic links,
// readlink that cuts off, and a file that lives on without a name.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

static void put(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    need(fd >= 0 && write_all(fd, text, strlen(text)), path);
    close(fd);
}

static int holds(const char *path, const char *text)
{
    char buf[64];
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, buf, sizeof buf);
    close(fd);
    return n == (ssize_t)strlen(text) && memcmp(buf, text, strlen(text)) == 0;
}

int main(void)
{
    char buf[64];
    put("a", "first");
    put("b", "second");
    need(mkdir("dir", 0755) == 0 && mkdir("full", 0755) == 0, "mkdir");
    put("full/file", "x");

    check(rename("a", "c") == 0 && holds("c", "first") && access("a", F_OK) == -1, "rename to a new name");
    check(rename("c", "b") == 0 && holds("b", "first"), "rename over a file");
    check(rename("b", "dir/b") == 0 && holds("dir/b", "first"), "rename into a directory");
    check(rename("dir/b", "dir/b") == 0, "rename to itself");
    check_fails(rename("absent", "x"), ENOENT, "rename of nothing");
    check_fails(rename("dir/b", "full"), EISDIR, "a file over a directory");
    check_fails(rename("full", "dir/b"), ENOTDIR, "a directory over a file");
    check_fails(rename("full", "full/inside"), EINVAL, "a directory into itself");
    check_fails(rename("dir", "full"), ENOTEMPTY, "a directory over a full one");
    check(mkdir("empty", 0755) == 0 && rename("full", "empty") == 0 && holds("empty/file", "x"),
          "a directory over an empty one");

    check(link("dir/b", "hard") == 0, "a hard link");
    put("hard", "changed");
    check(holds("dir/b", "changed"), "both names are one file");
    check_fails(link("hard", "dir/b"), EEXIST, "a link over a file");
    check(symlink("dir/b", "soft") == 0 && holds("soft", "changed"), "a symbolic link");
    check(readlink("soft", buf, sizeof buf) == 5 && memcmp(buf, "dir/b", 5) == 0, "readlink gives dir/b");
    memset(buf, '#', sizeof buf);
    check(readlink("soft", buf, 3) == 3 && memcmp(buf, "dir#", 4) == 0, "readlink into 3 bytes cuts off");
    check_fails(readlink("hard", buf, sizeof buf), EINVAL, "readlink of a file");
    check_fails(readlink("soft", buf, 0), EINVAL, "readlink into 0 bytes");
    check(rename("soft", "soft2") == 0 && readlink("soft2", buf, sizeof buf) == 5, "rename moves the link itself");

    int fd = open("hard", O_RDWR);
    need(fd >= 0, "open");
    check(unlink("hard") == 0 && unlink("dir/b") == 0, "both names removed");
    check(pread(fd, buf, sizeof buf, 0) == 7 && memcmp(buf, "changed", 7) == 0, "the open file is still read");
    check(pwrite(fd, "CH", 2, 0) == 2 && pread(fd, buf, 2, 0) == 2 && buf[0] == 'C', "and written");
    check_fails(unlink("hard"), ENOENT, "unlink again");
    check_fails(access("soft2", F_OK), ENOENT, "the symbolic link dangles");
    check(unlink("soft2") == 0, "and is removed");
    put("left-behind", "the harness compares this file");
    return check_done();
}
