// name_to_handle_at: a file's handle is Linux's, so the same by every way to the file; errors in Linux's order. Handles are opened by
// root alone.
//
// Regression: the call was refused, so systemd's and ganesha's way to tell mounts apart failed.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct handle {
    struct file_handle head;
    unsigned char bytes[MAX_HANDLE_SZ];
};

static int handle_of(int dir, const char *path, struct handle *to, unsigned room, int *mount, int flags)
{
    memset(to, 0, sizeof *to);
    to->head.handle_bytes = room;
    return name_to_handle_at(dir, path, &to->head, mount, flags);
}

static int same(const struct handle *a, const struct handle *b)
{
    return a->head.handle_bytes == b->head.handle_bytes && a->head.handle_type == b->head.handle_type &&
           memcmp(a->bytes, b->bytes, a->head.handle_bytes) == 0;
}

int main(void)
{
    static struct handle one, two;
    int mount = -1, other = -1;
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    need(fd >= 0 && symlink("file", "link") == 0, "files");
    check_fails(handle_of(AT_FDCWD, "file", &one, 0, &mount, 0), EOVERFLOW, "no room");
    check(one.head.handle_bytes > 0 && one.head.handle_bytes <= MAX_HANDLE_SZ, "the room that it takes is told");
    check(handle_of(AT_FDCWD, "file", &one, MAX_HANDLE_SZ, &mount, 0) == 0 && mount >= 0, "by its path");
    check(handle_of(fd, "", &two, MAX_HANDLE_SZ, &other, AT_EMPTY_PATH) == 0, "by a descriptor");
    check(same(&one, &two) && mount == other, "they are the same");
    check(handle_of(AT_FDCWD, "link", &two, MAX_HANDLE_SZ, &other, AT_SYMLINK_FOLLOW) == 0 && same(&one, &two), "by a link");
    check(handle_of(AT_FDCWD, "link", &two, MAX_HANDLE_SZ, &other, 0) == 0 && !same(&one, &two), "the link itself");
    check_fails(handle_of(AT_FDCWD, "file", &one, MAX_HANDLE_SZ + 1, &mount, 0), EINVAL, "too much room");
    check_fails(handle_of(AT_FDCWD, "file", &one, MAX_HANDLE_SZ, &mount, -1), EINVAL, "unknown flags");
    check_fails(handle_of(AT_FDCWD, "none", &one, MAX_HANDLE_SZ, &mount, 0), ENOENT, "no file");
    check_fails(handle_of(99, "file", &one, MAX_HANDLE_SZ, &mount, 0), EBADF, "no descriptor");
    check_fails(syscall(SYS_name_to_handle_at, AT_FDCWD, "file", 8, &mount, 0), EFAULT, "a bad handle");
    need(handle_of(AT_FDCWD, "file", &one, MAX_HANDLE_SZ, &mount, 0) == 0, "a handle");
    check_fails(syscall(SYS_name_to_handle_at, AT_FDCWD, "file", &one, 8, 0), EFAULT, "a bad place for the mount");
    return check_done();
}
