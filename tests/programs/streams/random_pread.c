// A file of the numbered stream read and rewritten at pseudo-random places:
// pread of many lengths and alignments must give the right words. Argument: size.
#include "../common/check.h"
#include <fcntl.h>

static uint64_t state = 12345;

static uint64_t next(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 24;
}

int main(int argc, char **argv)
{
    enum { BLOCK_BYTES = 1 << 20 };
    static char buf[BLOCK_BYTES];
    size_t size = size_arg(argc, argv, 1, 4 << 20), words = size / 8;
    int fd = open("stream", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && size >= BLOCK_BYTES, "set-up");
    // Written from the back, so that the file begins as one hole.
    for (size_t at = size / BLOCK_BYTES; at-- > 0;) {
        seq_fill(buf, at * (BLOCK_BYTES / 8), BLOCK_BYTES / 8);
        need(pwrite(fd, buf, BLOCK_BYTES, (off_t)(at * BLOCK_BYTES)) == BLOCK_BYTES, "pwrite");
    }
    int right = 1;
    struct sums sums = {0};
    for (int i = 0; i < 2000; i++) {
        size_t len = next() % (i % 10 ? 512 : BLOCK_BYTES / 8) + 1, at = next() % (words - len);
        // The target is misaligned by up to 7 bytes within the buffer.
        char *target = buf + (i % 8) * (len * 8 + 8 <= BLOCK_BYTES);
        need(pread(fd, target, len * 8, (off_t)(at * 8)) == (ssize_t)len * 8, "pread");
        memmove(buf, target, len * 8);
        right &= seq_matches(buf, at, len);
        sums_add(&sums, buf, len);
    }
    check(right, "2000 reads gave the right words");
    sums_print(&sums, "read");
    check(lseek(fd, 0, SEEK_CUR) == 0, "the offset is still 0");
    unlink("stream");
    return check_done();
}
