// MAP_FIXED_NOREPLACE refuses any overlap and changes nothing then; hints are
// taken when free and passed over when not.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static void *noreplace(void *at, size_t pages)
{
    return mmap(at, pages * PAGE_BYTES, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
}

int main(void)
{
    char *p = mmap(NULL, 32 * PAGE_BYTES, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    memset(p, 7, 32 * PAGE_BYTES);
    need(munmap(p + 8 * PAGE_BYTES, 8 * PAGE_BYTES) == 0, "munmap");
    char *hole = p + 8 * PAGE_BYTES;

    check_fails((long)noreplace(p, 1), EEXIST, "over the start");
    check_fails((long)noreplace(hole - PAGE_BYTES, 2), EEXIST, "one page over, one in the hole");
    check_fails((long)noreplace(hole + 7 * PAGE_BYTES, 2), EEXIST, "the other side of the hole");
    check_fails((long)noreplace(hole - PAGE_BYTES, 10), EEXIST, "over the whole hole");
    check(!can_read(hole) && !can_read(hole + 7 * PAGE_BYTES), "the hole is still one");
    check(all_bytes(p, 7, 8 * PAGE_BYTES) && all_bytes(hole + 8 * PAGE_BYTES, 7, 16 * PAGE_BYTES),
          "the rest is unchanged");
    check(noreplace(hole, 8) == hole, "the exact hole is taken");
    check(all_bytes(hole, 0, 8 * PAGE_BYTES), "and is zero");
    check_fails((long)noreplace(hole, 8), EEXIST, "but not twice");
    check_fails((long)noreplace(hole + 1, 1), EINVAL, "an unaligned address");

    need(munmap(hole, 8 * PAGE_BYTES) == 0, "munmap");
    check(mmap(hole, 4 * PAGE_BYTES, RW, ANON, -1, 0) == hole, "a free hint is taken");
    char *elsewhere = mmap(hole, 4 * PAGE_BYTES, RW, ANON, -1, 0);
    check(elsewhere != MAP_FAILED && elsewhere != hole, "a taken hint is passed over");
    check(elsewhere + 4 * PAGE_BYTES <= p || elsewhere >= hole + 4 * PAGE_BYTES, "without overlap");
    check(mmap(p, PAGE_BYTES, PROT_NONE, ANON | MAP_FIXED, -1, 0) == p, "a PROT_NONE map");
    check_fails((long)noreplace(p, 1), EEXIST, "counts as taken too");
    return check_done();
}
