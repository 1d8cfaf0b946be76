// The flags of open: creation, exclusion, truncation, appending, directories
// and symbolic links, and the errors each of them gives.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void creation(void)
{
    umask(022);
    int fd = open("new", O_CREAT | O_EXCL | O_RDWR, 0666);
    check(fd >= 0, "O_CREAT|O_EXCL makes a new file");
    check(mode_of("new") == 0644, "its mode is 0666 less the umask");
    check_fails(open("new", O_CREAT | O_EXCL | O_RDWR, 0666), EEXIST, "O_EXCL on an existing file");
    check(write(fd, "hello world", 11) == 11, "11 bytes written");
    close(fd);
    check_fails(open("absent", O_RDONLY), ENOENT, "opening what is not there");
    check_fails(open("absent/below", O_CREAT | O_WRONLY, 0600), ENOENT, "creating below what is not there");
    check_fails(open("new/below", O_RDONLY), ENOTDIR, "a file used as a directory");
    check_fails(open("", O_RDONLY), ENOENT, "the empty path");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    check_fails(open(name, O_CREAT | O_WRONLY, 0600), ENAMETOOLONG, "a name of 299 bytes");
}

static void truncation_and_appending(void)
{
    int fd = open("new", O_WRONLY | O_APPEND);
    check(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "!", 1) == 1, "O_APPEND write after a seek to 0");
    close(fd);
    check(size_of("new") == 12, "the byte went to the end");
    fd = open("new", O_RDONLY);
    check_fails(write(fd, "x", 1), EBADF, "writing to a read-only descriptor");
    close(fd);
    fd = open("new", O_WRONLY | O_TRUNC);
    check(size_of("new") == 0, "O_TRUNC empties the file");
    char c;
    check_fails(read(fd, &c, 1), EBADF, "reading from a write-only descriptor");
    close(fd);
    check_fails(close(fd), EBADF, "closing twice");
}

static void directories_and_links(void)
{
    need(mkdir("dir", 0755) == 0 && symlink("new", "link") == 0 && symlink("loop", "loop") == 0, "set-up");
    check_fails(open("dir", O_WRONLY), EISDIR, "writing to a directory");
    check_fails(open("new", O_RDONLY | O_DIRECTORY), ENOTDIR, "O_DIRECTORY on a file");
    check_fails(open("link", O_RDONLY | O_NOFOLLOW), ELOOP, "O_NOFOLLOW on a link");
    check_fails(open("loop", O_RDONLY), ELOOP, "a link to itself");
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    check(dir >= 0, "O_DIRECTORY on a directory");
    char c;
    check_fails(read(dir, &c, 1), EISDIR, "reading a directory");
    int fd = openat(dir, "inside", O_CREAT | O_WRONLY, 0640);
    check(fd >= 0 && mode_of("dir/inside") == 0640, "openat relative to a directory");
    check_fails(openat(fd, "x", O_RDONLY), ENOTDIR, "openat relative to a file");
    check_fails(openat(77, "x", O_RDONLY), EBADF, "openat relative to a closed descriptor");
    close(fd);
    close(dir);
    fd = open("link", O_WRONLY);
    check(fd >= 0 && write(fd, "through", 7) == 7 && size_of("new") == 7, "writing through a link");
    close(fd);
}

int main(void)
{
    creation();
    truncation_and_appending();
    directories_and_links();
    return check_done();
}
