// mprotect that splits and merges regions: random ranges of 256 pages against a
// model, then a range with a hole, where the part before the hole is changed.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, PAGES = 256 };

static unsigned state = 1;

static unsigned next(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static int agrees(char *p, const unsigned char *model)
{
    int right = 0;
    for (int i = 0; i < PAGES; i++) {
        char *at = p + (size_t)i * PAGE_BYTES + (size_t)i;
        int readable = can_read(at), writable = can_write(at);
        right += readable == (model[i] != PROT_NONE) && writable == (model[i] == RW) &&
                 (!readable || *at == (char)i);
    }
    return right == PAGES;
}

int main(void)
{
    static const int kinds[] = {PROT_NONE, PROT_READ, RW};
    unsigned char model[PAGES];
    char *p = mmap(NULL, PAGES * PAGE_BYTES, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    for (int i = 0; i < PAGES; i++)
        memset(p + (size_t)i * PAGE_BYTES, i, PAGE_BYTES);
    memset(model, RW, PAGES);

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 25; i++) {
            unsigned from = next(PAGES), len = next(PAGES - from) / (1 + next(8)) + 1;
            int kind = kinds[next(3)];
            need(mprotect(p + (size_t)from * PAGE_BYTES, (size_t)len * PAGE_BYTES, kind) == 0, "mprotect");
            memset(model + from, kind, len);
        }
        if (!agrees(p, model)) {
            check(0, "round %d", round);
            return check_done();
        }
    }
    check(1, "500 random ranges, 20 comparisons of 256 pages with the model");
    need(mprotect(p, PAGES * PAGE_BYTES, RW) == 0, "mprotect");
    memset(model, RW, PAGES);
    check(agrees(p, model), "all merged to RW again, every byte kept");

    need(munmap(p + 100 * PAGE_BYTES, PAGE_BYTES) == 0, "munmap");
    check_fails(mprotect(p + 90 * PAGE_BYTES, 20 * PAGE_BYTES, PROT_READ), ENOMEM, "a range with a hole");
    check(!can_write(p + 90 * PAGE_BYTES) && !can_write(p + 99 * PAGE_BYTES), "the part before it is changed");
    check(can_write(p + 101 * PAGE_BYTES) && can_write(p + 109 * PAGE_BYTES), "the part after it is not");
    return check_done();
}
