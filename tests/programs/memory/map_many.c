// 100 maps of 1 MB: all zero, all distinct, all writable; unmapped in another
// order, mapped again, zero again: nothing is left over and nothing leaks.
#include "../common/check.h"
#include <sys/mman.h>

enum { MAPS = 100, MAP_BYTES = 1 << 20 };

static int zero(const char *p) { return all_bytes(p, 0, MAP_BYTES); }

int main(void)
{
    char *maps[MAPS];
    int fresh = 0, kept = 0;
    for (int i = 0; i < MAPS; i++) {
        maps[i] = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(maps[i] != MAP_FAILED, "mmap");
        fresh += zero(maps[i]);
        memset(maps[i], i + 1, MAP_BYTES);
    }
    check(fresh == MAPS, "100 maps of 1 MB are zero");
    for (int i = 0; i < MAPS; i++)
        kept += all_bytes(maps[i], i + 1, MAP_BYTES);
    check(kept == MAPS, "each keeps its own bytes");
    int unmapped = 0, gone = 0;
    for (int i = 0; i < MAPS; i++)
        unmapped += munmap(maps[i * 37 % MAPS], MAP_BYTES) == 0;
    check(unmapped == MAPS, "all unmapped, out of order");
    for (int i = 0; i < MAPS; i++)
        gone += !can_read(maps[i]) && !can_read(maps[i] + MAP_BYTES - 1);
    check(gone == MAPS, "all fault now");

    fresh = 0;
    for (int round = 0; round < 300; round++) {
        size_t len = (size_t)(round % 97 + 1) * 3 * PAGE_BYTES;
        char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(p != MAP_FAILED, "mmap");
        // The first, the last and one byte in the middle of every page.
        int clean = p[0] == 0 && p[len - 1] == 0;
        for (size_t at = 2048; at < len; at += PAGE_BYTES)
            clean &= p[at] == 0;
        fresh += clean;
        memset(p, 0xA5, len);
        need(munmap(p, len) == 0, "munmap");
    }
    check(fresh == 300, "300 rounds of map, fill, unmap: always zero, 180 MB in total");
    return check_done();
}
