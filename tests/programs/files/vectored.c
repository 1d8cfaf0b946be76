// readv and writev: many pieces in order, empty pieces, pieces across page
// borders, short reads, and the limits on counts and lengths.
#include "../common/check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { PIECES = 512 };

// Piece i has i bytes of value i: 0 + 1 + ... + 511 = 130816 bytes.
static size_t make_pieces(struct iovec *v, char *area, int with_values)
{
    size_t at = 0;
    for (int i = 0; i < PIECES; i++) {
        v[i].iov_base = area + at;
        v[i].iov_len = (size_t)i;
        if (with_values)
            memset(area + at, i & 0xff, (size_t)i);
        at += (size_t)i + 3; // a gap that must stay untouched
    }
    return at;
}

int main(void)
{
    static char out[200000], in[200000];
    static struct iovec v[IOV_MAX + 1];
    const ssize_t total = PIECES * (PIECES - 1) / 2;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");

    make_pieces(v, out, 1);
    check(writev(fd, v, PIECES) == total, "writev of 512 pieces, 130816 bytes");
    lseek(fd, 0, SEEK_SET);
    make_pieces(v, in, 0);
    check(readv(fd, v, PIECES) == total, "readv of the same");
    check(memcmp(in, out, sizeof in) == 0, "every byte and every gap is the same");
    check(readv(fd, v, PIECES) == 0, "then the end of the file");

    lseek(fd, -10, SEEK_END);
    memset(in, 'x', 100);
    struct iovec two[2] = {{in, 4}, {in + 50, 40}};
    check(readv(fd, two, 2) == 10, "a short readv gives the 10 bytes left");
    check(in[4] == 'x' && in[49] == 'x' && in[50] == (char)511 && in[55] == (char)511 && in[56] == 'x',
          "4 in the first piece, 6 in the second");

    struct iovec text[3] = {{(void *)"one ", 4}, {NULL, 0}, {(void *)"two\n", 4}};
    fflush(stdout);
    check(writev(1, text, 3) == 8, "writev to stdout with an empty piece at NULL");
    check(writev(fd, text, 0) == 0, "no pieces at all");
    check_fails(writev(fd, text, -1), EINVAL, "-1 pieces");
    check_fails(writev(fd, v, IOV_MAX + 1), EINVAL, "IOV_MAX + 1 pieces");
    text[1].iov_len = SIZE_MAX;
    check_fails(writev(fd, text, 3), EINVAL, "a piece of length -1");
    text[1].iov_len = 8;
    check(writev(fd, text, 1) == 4, "pieces past the count are not looked at");
    check_fails(writev(99, text, 1), EBADF, "a closed descriptor");

    char *pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED && munmap(pages + PAGE_BYTES, PAGE_BYTES) == 0, "the end of a mapping");
    struct iovec *last = (struct iovec *)(pages + PAGE_BYTES) - 1;
    *last = (struct iovec){out, 1};
    check_fails(writev(fd, last, IOV_MAX), EFAULT, "all vectors but the first lie nowhere");

    for (int i = 0; i < IOV_MAX; i++)
        v[i].iov_base = out, v[i].iov_len = 1;
    check(writev(fd, v, IOV_MAX) == IOV_MAX, "IOV_MAX pieces of one byte");
    lseek(fd, 0, SEEK_SET);
    check(pwritev(fd, text, 1, 100) == 4 && preadv(fd, two, 1, 100) == 4, "pwritev and preadv at 100");
    check(memcmp(in, "one ", 4) == 0 && lseek(fd, 0, SEEK_CUR) == 0, "leave the offset alone");
    return check_done();
}
