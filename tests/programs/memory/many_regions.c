// 1000 regions that cannot merge (525 are the most that real programs had):
// alternating protections, each found again, then merged and removed.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, REGIONS = 1000 };

int main(void)
{
    static char *at[REGIONS];
    char *p = mmap(NULL, (size_t)REGIONS * 2 * PAGE_BYTES, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    for (int i = 0; i < REGIONS; i++) {
        at[i] = p + (size_t)i * 2 * PAGE_BYTES;
        memset(at[i], i, 2 * PAGE_BYTES);
        if (i % 2)
            need(mprotect(at[i], 2 * PAGE_BYTES, PROT_READ) == 0, "mprotect");
    }
    int right = 0;
    for (int i = 0; i < REGIONS; i++)
        right += can_write(at[i]) == !(i % 2) && all_bytes(at[i], i, 2 * PAGE_BYTES);
    check(right == REGIONS, "1000 regions, RW and R in turn");
    for (int i = 0; i < REGIONS; i += 3)
        need(munmap(at[i] + PAGE_BYTES, PAGE_BYTES) == 0, "munmap");
    right = 0;
    for (int i = 0; i < REGIONS; i++)
        right += can_read(at[i]) && can_read(at[i] + PAGE_BYTES) == (i % 3 != 0);
    check(right == REGIONS, "every third cut in half");
    for (int i = 0; i < REGIONS; i += 3)
        need(mmap(at[i] + PAGE_BYTES, PAGE_BYTES, PROT_NONE, ANON | MAP_FIXED, -1, 0) != MAP_FAILED, "mmap");
    check(mprotect(p, (size_t)REGIONS * 2 * PAGE_BYTES, RW) == 0, "one mprotect over all of them");
    right = 0;
    for (int i = 0; i < REGIONS; i++)
        right += all_bytes(at[i], i, PAGE_BYTES) && all_bytes(at[i] + PAGE_BYTES, i % 3 ? i : 0, PAGE_BYTES);
    check(right == REGIONS, "contents as they were, zero where pages are new");
    check(munmap(p, (size_t)REGIONS * 2 * PAGE_BYTES) == 0 && !can_read(p) && !can_read(at[REGIONS - 1]), "one munmap");

    for (int i = 0; i < REGIONS; i++) {
        at[i] = mmap(NULL, PAGE_BYTES, i % 2 ? RW : PROT_READ, ANON, -1, 0);
        need(at[i] != MAP_FAILED, "mmap");
    }
    right = 0;
    for (int i = 0; i < REGIONS; i++)
        right += can_write(at[i]) == i % 2 && munmap(at[i], PAGE_BYTES) == 0;
    check(right == REGIONS, "1000 maps of one page");
    return check_done();
}
