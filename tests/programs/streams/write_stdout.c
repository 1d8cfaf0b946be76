// Writes the numbered stream to stdout with write(2). Arguments: size, and
// bytes per write.
#include "../common/check.h"

int main(int argc, char **argv)
{
    size_t size = size_arg(argc, argv, 1, 4 << 20), block = size_arg(argc, argv, 2, 1 << 20);
    char *buf = malloc(block);
    need(buf != NULL && block % 8 == 0, "arguments");
    for (size_t at = 0; at < size; at += block) {
        size_t now = size - at < block ? size - at : block;
        seq_fill(buf, at / 8, now / 8);
        need(write_all(1, buf, now), "write");
    }
    fprintf(stderr, "%zu bytes written\n", size);
    return 0;
}
