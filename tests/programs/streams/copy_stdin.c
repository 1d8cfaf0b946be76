// Copies stdin to stdout with read and write in 64 KiB pieces, as cat does;
// the bytes and the total on stderr must be those of the native run.
#include "../common/check.h"

int main(void)
{
    static char buf[64 << 10];
    unsigned long long total = 0;
    ssize_t n;
    while ((n = read(0, buf, sizeof buf)) > 0) {
        need(write_all(1, buf, (size_t)n), "write");
        total += (unsigned long long)n;
    }
    fprintf(stderr, "%llu bytes copied, read ended with %zd\n", total, n);
    return n != 0;
}
