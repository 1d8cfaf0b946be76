// truncate and ftruncate: shrinking, growing with zeros, stale bytes that must
// not come back, offsets that stay, and the refusals.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

static off_t size_of(int fd)
{
    struct stat st;
    need(fstat(fd, &st) == 0, "fstat");
    return st.st_size;
}

int main(void)
{
    static char buf[100000];
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    memset(buf, 'A', sizeof buf);
    need(write_all(fd, buf, sizeof buf), "write");

    check(ftruncate(fd, 5000) == 0 && size_of(fd) == 5000, "cut to 5000 bytes");
    check(lseek(fd, 0, SEEK_CUR) == 100000, "the offset stays at 100000");
    check(ftruncate(fd, 50000) == 0 && size_of(fd) == 50000, "grown to 50000");
    check(pread(fd, buf, sizeof buf, 0) == 50000, "50000 bytes are read");
    check(all_bytes(buf, 'A', 5000), "the first 5000 kept");
    check(all_bytes(buf + 5000, 0, 45000), "the rest zero, no stale bytes");
    check(write(fd, "Z", 1) == 1 && size_of(fd) == 100001, "a write at the kept offset grows the file");
    check(ftruncate(fd, 0) == 0 && size_of(fd) == 0, "cut to nothing");
    check(pread(fd, buf, 1, 0) == 0, "nothing to read");
    check(ftruncate(fd, (off_t)1 << 33) == 0 && size_of(fd) == (off_t)1 << 33, "8 GiB of hole");
    check(pread(fd, buf, 100, ((off_t)1 << 33) - 50) == 50 && all_bytes(buf, 0, 50), "its end reads as zeros");
    check(truncate("f", 3) == 0 && size_of(fd) == 3, "truncate by name");

    check_fails(ftruncate(fd, -1), EINVAL, "a negative length");
    check_fails(ftruncate(99, 0), EBADF, "a closed descriptor");
    check_fails(truncate("absent", 0), ENOENT, "a file that is not there");
    need(mkdir("d", 0700) == 0, "mkdir");
    check_fails(truncate("d", 0), EISDIR, "a directory");
    int read_only = open("f", O_RDONLY);
    check_fails(ftruncate(read_only, 0), EINVAL, "a read-only descriptor");
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    check_fails(ftruncate(ends[1], 0), EINVAL, "a pipe");
    check(fsync(fd) == 0 && fdatasync(fd) == 0, "fsync and fdatasync");
    return check_done();
}
