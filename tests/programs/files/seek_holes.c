// File offsets: lseek in all three ways, holes that read as zeros, reads at
// the end of the file, pread and pwrite that leave the offset alone.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(void)
{
    char buf[64];
    struct stat st;
    int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0, "open");

    check(write(fd, "0123456789", 10) == 10, "10 bytes written");
    check(lseek(fd, 0, SEEK_CUR) == 10, "the offset is 10");
    check(lseek(fd, -4, SEEK_END) == 6, "SEEK_END - 4 is 6");
    check(read(fd, buf, 64) == 4 && memcmp(buf, "6789", 4) == 0, "a long read gives the last 4 bytes");
    check(read(fd, buf, 64) == 0, "then the end of the file");
    check(lseek(fd, -3, SEEK_CUR) == 7 && read(fd, buf, 1) == 1 && buf[0] == '7', "SEEK_CUR - 3");
    check_fails(lseek(fd, -100, SEEK_CUR), EINVAL, "a seek to before the start");
    check(lseek(fd, 0, SEEK_CUR) == 8, "and the offset stays");
    check_fails(lseek(fd, 0, 99), EINVAL, "an unknown whence");

    check(lseek(fd, 1000000, SEEK_SET) == 1000000, "a seek past the end");
    check(read(fd, buf, 1) == 0, "reads nothing there");
    check(fstat(fd, &st) == 0 && st.st_size == 10, "and does not grow the file");
    check(write(fd, "end", 3) == 3, "a write there");
    check(fstat(fd, &st) == 0 && st.st_size == 1000003, "does");
    check(pread(fd, buf, 64, 5000) == 64 && all_bytes(buf, 0, 64), "the hole reads as zeros");

    check(lseek(fd, 5, SEEK_SET) == 5, "back to 5");
    check(pread(fd, buf, 3, 0) == 3 && memcmp(buf, "012", 3) == 0, "pread at 0");
    check(pwrite(fd, "AB", 2, 8) == 2, "pwrite at 8");
    check(lseek(fd, 0, SEEK_CUR) == 5, "neither moved the offset");
    check(read(fd, buf, 5) == 5 && memcmp(buf, "567AB", 5) == 0, "read sees the bytes of pwrite");
    check(pread(fd, buf, 64, 1000000) == 3, "pread stops at the end");
    check(pread(fd, buf, 64, 2000000) == 0, "pread past the end gives nothing");
    check_fails(pread(fd, buf, 1, -1), EINVAL, "pread at -1");
    check(pwrite(fd, "big", 3, (off_t)5 << 30) == 3, "pwrite at 5 GiB");
    check(fstat(fd, &st) == 0 && st.st_size == ((off_t)5 << 30) + 3, "sizes have 64 bits");
    check(ftruncate(fd, 10) == 0, "cut back to 10");

    int pipe_fds[2];
    need(pipe(pipe_fds) == 0, "pipe");
    check_fails(lseek(pipe_fds[0], 0, SEEK_SET), ESPIPE, "seeking in a pipe");
    check_fails(pread(pipe_fds[0], buf, 1, 0), ESPIPE, "pread from a pipe");
    check_fails(lseek(99, 0, SEEK_SET), EBADF, "seeking on a closed descriptor");
    return check_done();
}
