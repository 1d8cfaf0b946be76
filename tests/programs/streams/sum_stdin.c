// Reads the numbered stream from stdin and verifies every word: any lost,
// doubled or swapped piece shows. Arguments: size, and bytes requested per read.
#include "../common/check.h"

int main(int argc, char **argv)
{
    size_t size = size_arg(argc, argv, 1, 4 << 20), block = size_arg(argc, argv, 2, 1 << 20);
    // Room for a block and the up to 7 bytes of a word cut in two.
    char *buf = malloc(block + 8);
    struct sums sums = {0};
    size_t kept = 0, total = 0;
    int right = 1;
    ssize_t n;
    need(buf != NULL, "malloc");
    while ((n = read(0, buf + kept, block)) > 0) {
        total += (size_t)n;
        size_t have = kept + (size_t)n, words = have / 8;
        right &= seq_matches(buf, sums.words, words);
        sums_add(&sums, buf, words);
        kept = have % 8;
        memmove(buf, buf + words * 8, kept);
    }
    check(n == 0, "the stream ended");
    check(total == size && kept == 0, "after %zu bytes", size);
    check(right, "every word is in its place");
    sums_print(&sums, "stdin");
    check(read(0, buf, 1) == 0, "the end stays the end");
    return check_done();
}
