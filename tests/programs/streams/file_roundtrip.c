// Writes the numbered stream to a file in 1 MiB calls, reads it back in others
// of 3 MiB, verifies it, and removes it. Argument: size.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    enum { WRITE_BYTES = 1 << 20, READ_BYTES = 3 << 20 };
    size_t size = size_arg(argc, argv, 1, 4 << 20);
    char *buf = malloc(READ_BYTES);
    struct sums sums = {0};
    struct stat st;
    int fd = open("stream", O_CREAT | O_RDWR, 0600);
    need(buf != NULL && fd >= 0, "set-up");
    for (size_t at = 0; at < size; at += WRITE_BYTES) {
        size_t now = size - at < WRITE_BYTES ? size - at : WRITE_BYTES;
        seq_fill(buf, at / 8, now / 8);
        need(write_all(fd, buf, now), "write");
    }
    check(fstat(fd, &st) == 0 && (size_t)st.st_size == size, "%zu bytes written", size);
    check(lseek(fd, 0, SEEK_SET) == 0, "back to the start");
    int right = 1;
    size_t n;
    while ((n = read_full(fd, buf, READ_BYTES)) > 0) {
        right &= seq_matches(buf, sums.words, n / 8);
        sums_add(&sums, buf, n / 8);
    }
    check(right && sums.words * 8 == size, "every word read back");
    sums_print(&sums, "file");
    check(close(fd) == 0 && unlink("stream") == 0, "removed");
    return check_done();
}
