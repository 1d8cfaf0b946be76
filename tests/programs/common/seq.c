// Writes the first SIZE bytes of the numbered stream to stdout: the input that
// programs.tsv calls "pipe:SIZE" and "file:SIZE". Usage: seq SIZE
#include "check.h"

int main(int argc, char **argv)
{
    enum { BLOCK_BYTES = 1 << 20 };
    static uint64_t block[BLOCK_BYTES / 8];
    size_t size = size_arg(argc, argv, 1, 0);
    for (size_t at = 0; at < size; at += BLOCK_BYTES) {
        size_t now = size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
        seq_fill(block, at / 8, BLOCK_BYTES / 8);
        if (!write_all(1, block, now))
            return 1;
    }
    return 0;
}
