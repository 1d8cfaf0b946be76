// The numbered stream written to a file by writev from pieces scattered over a
// buffer, read back by readv into others. Argument: size.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/uio.h>

enum { PIECES = 64, PIECE_BYTES = 16 << 10, STRIDE_BYTES = PIECE_BYTES + 4096 + 8 };

// Piece i of a round lies at slot (i * 29) mod 64, so neighbours are far apart.
static void scatter(struct iovec *v, char *area)
{
    for (int i = 0; i < PIECES; i++) {
        v[i].iov_base = area + (size_t)(i * 29 % PIECES) * STRIDE_BYTES;
        v[i].iov_len = PIECE_BYTES;
    }
}

int main(int argc, char **argv)
{
    const size_t round_bytes = (size_t)PIECES * PIECE_BYTES, piece_words = PIECE_BYTES / 8;
    size_t rounds = size_arg(argc, argv, 1, 4 << 20) / round_bytes;
    struct iovec v[PIECES];
    struct sums sums = {0};
    char *area = malloc((size_t)PIECES * STRIDE_BYTES);
    int fd = open("stream", O_CREAT | O_RDWR, 0600), right = 1;
    need(area != NULL && fd >= 0, "set-up");
    scatter(v, area);
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < PIECES; i++)
            seq_fill(v[i].iov_base, (r * PIECES + i) * piece_words, piece_words);
        need(writev(fd, v, PIECES) == (ssize_t)round_bytes, "writev");
    }
    check(lseek(fd, 0, SEEK_CUR) == (off_t)(rounds * round_bytes), "%zu bytes written", rounds * round_bytes);
    lseek(fd, 0, SEEK_SET);
    memset(area, 0x55, (size_t)PIECES * STRIDE_BYTES);
    for (size_t r = 0; r < rounds; r++) {
        need(readv(fd, v, PIECES) == (ssize_t)round_bytes, "readv");
        for (size_t i = 0; i < PIECES; i++) {
            right &= seq_matches(v[i].iov_base, sums.words, piece_words);
            sums_add(&sums, v[i].iov_base, piece_words);
        }
    }
    check(right, "every word read back");
    for (size_t i = 0; i < PIECES; i++)
        right &= all_bytes(area + i * STRIDE_BYTES + PIECE_BYTES, 0x55, STRIDE_BYTES - PIECE_BYTES);
    check(right, "nothing was written between the pieces");
    sums_print(&sums, "file");
    unlink("stream");
    return check_done();
}
