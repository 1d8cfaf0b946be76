// The numbered stream through a pipe within one process, in pieces that fit
// into it, with many sizes; then its ends: EOF, EPIPE, EAGAIN. Argument: size.
#include "../common/check.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
    enum { MOST_WORDS = 4096 / 8 };
    static uint64_t out[MOST_WORDS], in[MOST_WORDS];
    size_t words = size_arg(argc, argv, 1, 4 << 20) / 8;
    struct sums sums = {0};
    int ends[2], right = 1;
    need(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    check(fcntl(ends[0], F_GETFD) == FD_CLOEXEC, "pipe2 sets O_CLOEXEC");
    for (size_t at = 0, piece = 1; at < words; at += piece, piece = piece * 7 % MOST_WORDS + 1) {
        if (piece > words - at)
            piece = words - at;
        seq_fill(out, at, piece);
        need(write_all(ends[1], out, piece * 8), "write");
        // Read in two unequal parts.
        size_t first = piece / 3;
        need(read_full(ends[0], in, first * 8) == first * 8, "read");
        need(read_full(ends[0], in + first, (piece - first) * 8) == (piece - first) * 8, "read");
        right &= seq_matches(in, at, piece);
        sums_add(&sums, in, piece);
    }
    check(right, "every word came through");
    sums_print(&sums, "pipe");

    check(write(ends[1], "last", 4) == 4 && close(ends[1]) == 0, "4 bytes, then the writer is closed");
    check(read(ends[0], in, 100) == 4, "they are still read");
    check(read(ends[0], in, 100) == 0, "then the end of the file");
    close(ends[0]);

    need(pipe2(ends, O_NONBLOCK) == 0, "pipe2");
    check_fails(read(ends[0], in, 1), EAGAIN, "an empty pipe with O_NONBLOCK");
    ssize_t n;
    size_t filled = 0;
    while ((n = write(ends[1], out, 4096)) > 0)
        filled += (size_t)n;
    check(n == -1 && errno == EAGAIN && filled >= 4096 && filled % 4096 == 0, "a full one too");
    size_t drained = 0;
    while ((n = read(ends[0], in, sizeof in)) > 0)
        drained += (size_t)n;
    check(drained == filled, "what went in came out");
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    check_fails(write(ends[1], out, 1), EPIPE, "a pipe without a reader");
    check_fails(pipe2(ends, 0x7), EINVAL, "unknown flags");
    return check_done();
}
