// MAP_FIXED over existing maps: replaces exactly what it covers, is zero, takes
// its own protection, leaves the neighbours; across several maps and holes.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, PAGES = 64 };

static char *page(char *base, int n) { return base + (size_t)n * PAGE_BYTES; }

static int value_is(char *base, int from, int to, int value)
{
    return all_bytes(page(base, from), value, (size_t)(to - from) * PAGE_BYTES);
}

int main(void)
{
    char *p = mmap(NULL, PAGES * PAGE_BYTES, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    memset(p, 1, PAGES * PAGE_BYTES);

    check(mmap(page(p, 10), 5 * PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0) == page(p, 10), "5 pages in the middle");
    check(value_is(p, 10, 15, 0), "are zero");
    check(value_is(p, 0, 10, 1) && value_is(p, 15, PAGES, 1), "the rest is kept");
    memset(page(p, 10), 2, 5 * PAGE_BYTES);
    check(value_is(p, 0, 10, 1) && value_is(p, 15, PAGES, 1), "writing them touches nothing else");

    check(mmap(page(p, 12), 10 * PAGE_BYTES, PROT_READ, ANON | MAP_FIXED, -1, 0) == page(p, 12),
          "read-only over the border of two maps");
    check(value_is(p, 12, 22, 0) && value_is(p, 10, 12, 2) && value_is(p, 22, PAGES, 1), "zero; both rests kept");
    check(!can_write(page(p, 12)) && !can_write(page(p, 21)), "not writable");
    check(can_write(page(p, 11)) && can_write(page(p, 22)), "its neighbours are");

    need(munmap(page(p, 30), 4 * PAGE_BYTES) == 0 && munmap(page(p, 40), PAGE_BYTES) == 0, "munmap");
    check(mmap(page(p, 28), 16 * PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0) == page(p, 28), "over two holes");
    check(value_is(p, 28, 44, 0) && value_is(p, 22, 28, 1) && value_is(p, 44, PAGES, 1), "holes filled");
    memset(page(p, 28), 3, 16 * PAGE_BYTES);

    check(mmap(page(p, 0), PAGE_BYTES, PROT_NONE, ANON | MAP_FIXED, -1, 0) == p, "PROT_NONE over the first page");
    check(!can_read(p) && can_read(page(p, 1)), "which faults, the second does not");
    check(mmap(page(p, 0), PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0) == p && value_is(p, 0, 1, 0), "and back: zero");
    for (int i = 0; i < PAGES; i += 2)
        need(mmap(page(p, i), PAGE_BYTES, i % 4 ? RW : PROT_READ, ANON | MAP_FIXED, -1, 0) == page(p, i), "mmap");
    int right = 0;
    for (int i = 0; i < PAGES; i++)
        right += i % 2 ? can_write(page(p, i)) || (i > 11 && i < 22) : can_write(page(p, i)) == (i % 4 != 0);
    check(right == PAGES, "every second page replaced, with two protections in turn");
    check(mmap(p, PAGES * PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0) == p && value_is(p, 0, PAGES, 0),
          "one map over all of them");

    check_fails((long)mmap(p + 1, PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0), EINVAL, "an unaligned address");
    check_fails((long)mmap((void *)0xfffffffffff000, 2 * PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0), ENOMEM,
                "past the end of user space, with five levels of pages too");
    check(value_is(p, 0, PAGES, 0), "refusals changed nothing");
    return check_done();
}
