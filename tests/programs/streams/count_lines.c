// Reads stdin through the C library in odd pieces of 100,003 bytes and counts
// its newline bytes with memchr. Argument: size.
#include "../common/check.h"

enum { PIECE_BYTES = 100003 };

int main(int argc, char **argv)
{
    static unsigned char buf[PIECE_BYTES];
    size_t size = size_arg(argc, argv, 1, 4 << 20), total = 0, newlines = 0, n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) {
        total += n;
        for (const unsigned char *p = buf; (p = memchr(p, '\n', (size_t)(buf + n - p))) != NULL; p++)
            newlines++;
    }
    check(total == size, "%zu bytes through fread", size);
    check(feof(stdin) && !ferror(stdin), "ended by the end of the file");
    printf("%zu newline bytes among them\n", newlines);
    return check_done();
}
