// getrandom and /dev/urandom: all lengths filled, never twice the same, no
// bytes beyond the end, flags and refusals.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/random.h>

static unsigned char a[100000], b[100000];

static int ones(const unsigned char *p, size_t len_bytes)
{
    int n = 0;
    for (size_t i = 0; i < len_bytes; i++)
        n += __builtin_popcount(p[i]);
    return n;
}

int main(void)
{
    int right = 0;
    for (size_t len = 0; len <= 256; len++) {
        memset(a, 0, 300);
        right += getrandom(a, len, 0) == (ssize_t)len && all_bytes(a + len, 0, 44);
    }
    check(right == 257, "0 to 256 bytes in full, none beyond");
    size_t got = 0;
    while (got < sizeof a) {
        ssize_t n = getrandom(a + got, sizeof a - got, 0);
        need(n > 0, "getrandom");
        got += (size_t)n;
    }
    // 800,000 coin tosses: a deviation of 1 % is more than 17 sigma.
    int set = ones(a, sizeof a);
    check(set > 396000 && set < 404000, "half of the bits are set");
    int counts[256] = {0}, seen = 0;
    for (size_t i = 0; i < sizeof a; i++)
        seen += counts[a[i]]++ == 0;
    check(seen == 256, "all byte values occur");
    getrandom(b, 256, 0);
    check(memcmp(a, b, 256) != 0, "two calls differ");
    check(getrandom(a, 16, GRND_NONBLOCK) == 16, "GRND_NONBLOCK");
    check(getrandom(a, 16, GRND_INSECURE) == 16, "GRND_INSECURE");
    check_fails(getrandom(a, 16, 0x100), EINVAL, "unknown flags");
    check_fails(getrandom((void *)8, 16, 0), EFAULT, "a bad pointer");
    check_fails(getrandom((void *)0xffff800000000000, 16, 0), EFAULT, "a kernel pointer");
    check(getentropy(a, 256) == 0, "getentropy");
    check_fails(getentropy(a, 257), EIO, "of at most 256 bytes");
    int fd = open("/dev/urandom", O_RDONLY);
    check(fd >= 0 && read(fd, a, 4096) == 4096 && read(fd, b, 4096) == 4096 && memcmp(a, b, 4096) != 0, "/dev/urandom");
    return check_done();
}
