// mremap: shrinking, growing in place, moving with all contents, to a fixed
// place over something else, from the middle of a map, and the refusals.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
#define KB(n) ((size_t)(n) << 10)

static char *map(size_t len)
{
    char *p = mmap(NULL, len, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static void in_place(void)
{
    char *p = map(KB(1024));
    seq_fill(p, 0, KB(1024) / 8);
    check(mremap(p, KB(1024), KB(256), 0) == p, "shrunk in place");
    check(seq_matches(p, 0, KB(256) / 8) && !can_read(p + KB(256)), "the rest is gone");
    check(mremap(p, KB(256), KB(512), 0) == p, "grown in place into the free space");
    check(seq_matches(p, 0, KB(256) / 8) && all_bytes(p + KB(256), 0, KB(256)), "kept, and zero beyond");
    check(mremap(p, KB(512), KB(512), 0) == p, "the same size");
    need(mmap(p + KB(512), KB(4), RW, ANON | MAP_FIXED, -1, 0) == p + KB(512), "mmap");
    // Something of another protection behind it: it can neither grow nor merge.
    need(mprotect(p + KB(512), KB(4), PROT_READ) == 0, "mprotect");
    check_fails((long)mremap(p, KB(512), KB(516), 0), ENOMEM, "no room and not allowed to move");
    char *q = mremap(p, KB(512), KB(8192), MREMAP_MAYMOVE);
    check(q != MAP_FAILED && q != p, "MREMAP_MAYMOVE moves it");
    check(seq_matches(q, 0, KB(256) / 8) && all_bytes(q + KB(256), 0, KB(8192 - 256)), "contents kept, zero beyond");
    check(!can_read(p) && !can_read(p + KB(511)) && can_read(p + KB(512)), "the old place faults, its neighbour not");
    munmap(p + KB(512), KB(4));
    munmap(q, KB(8192));
}

static void fixed(void)
{
    char *p = map(KB(64)), *target = map(KB(256));
    seq_fill(p, 0, KB(64) / 8);
    memset(target, 9, KB(256));
    char *q = mremap(p, KB(64), KB(64), MREMAP_MAYMOVE | MREMAP_FIXED, target + KB(64));
    check(q == target + KB(64) && seq_matches(q, 0, KB(64) / 8), "MREMAP_FIXED over another map");
    check(all_bytes(target, 9, KB(64)) && all_bytes(q + KB(64), 9, KB(128)), "whose rest is kept");
    check(!can_read(p), "the old place is free");
    char *r = mremap(q + KB(16), KB(16), KB(16), MREMAP_MAYMOVE | MREMAP_FIXED, p);
    check(r == p && seq_matches(r, KB(16) / 8, KB(16) / 8), "the middle of a map moved out");
    check(seq_matches(q, 0, KB(16) / 8) && !can_read(q + KB(16)) && seq_matches(q + KB(32), KB(32) / 8, KB(32) / 8),
          "leaves a hole");
    check(mprotect(r, KB(16), PROT_READ) == 0, "read-only memory");
    q = mremap(r, KB(16), KB(32), MREMAP_MAYMOVE | MREMAP_FIXED, target + KB(64));
    check(q != MAP_FAILED && !can_write(q) && !can_write(q + KB(31)) && can_read(q + KB(31)), "stays so when moved");
    munmap(target, KB(256));
}

static void refusals(void)
{
    char *p = map(KB(64));
    check_fails((long)mremap(p + 1, KB(4), KB(8), MREMAP_MAYMOVE), EINVAL, "an unaligned address");
    check_fails((long)mremap(p, KB(64), 0, MREMAP_MAYMOVE), EINVAL, "a new length of 0");
    check_fails((long)mremap(p, 0, KB(64), MREMAP_MAYMOVE), EINVAL, "an old length of 0: only shared memory is seen twice");
    check_fails((long)mremap(p, 0, KB(64), 0), EINVAL, "nor where it is");
    check_fails((long)mremap(p, KB(64), KB(64), 0x100), EINVAL, "an unknown flag");
    check_fails((long)mremap(p, KB(64), KB(64), MREMAP_FIXED, p), EINVAL, "FIXED without MAYMOVE");
    check_fails((long)mremap(p, KB(64), KB(64), MREMAP_FIXED | MREMAP_MAYMOVE, p + KB(4)), EINVAL, "onto itself");
    need(munmap(p, KB(64)) == 0, "munmap");
    check_fails((long)mremap(p, KB(64), KB(128), MREMAP_MAYMOVE), EFAULT, "what is not mapped");
}

// Addresses that nothing is behind: what there is of them must not take time. Once it took 49 s.
static void reserved(void)
{
    size_t len = (size_t)200 << 30;
    char *p = mmap(NULL, len + KB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(p != MAP_FAILED, "reserve");
    char *q = mremap(p, len, len + KB(4), MREMAP_MAYMOVE); // the last page is in the way
    check(q != MAP_FAILED && q != p, "200 GB of addresses move");
    need(munmap(q, len + KB(4)) == 0 && munmap(p + len, KB(4)) == 0, "munmap");
}

// One page in each of more page tables than the kernel's list of emptied ones takes at once. Once it panicked.
static void many_tables(void)
{
    enum { TABLES = 1100 };
    const size_t table = KB(2048), len = TABLES * table;
    char *p = mmap(NULL, 2 * len, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), *q = p + len;
    need(p != MAP_FAILED, "reserve");
    for (int i = 0; i < TABLES; i++) {
        char *page = p + i * table;
        need(mprotect(page, KB(4), RW) == 0, "mprotect");
        *(int *)page = i;
        need(mprotect(page, KB(4), PROT_NONE) == 0, "mprotect");
    }
    check(mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q, "%d page tables are emptied by one call", TABLES);
    int kept = 0;
    for (int i = 0; i < TABLES; i++) {
        char *page = q + i * table;
        need(mprotect(page, KB(4), PROT_READ) == 0, "mprotect");
        kept += *(int *)page == i;
        need(mprotect(page, KB(4), PROT_NONE) == 0, "mprotect");
    }
    check(kept == TABLES && !can_read(p), "contents kept, the old place is free");
    need(munmap(q, len) == 0, "munmap");
}

int main(void)
{
    in_place();
    fixed();
    refusals();
    reserved();
    many_tables();
    char *p = map(KB(4));
    for (size_t len = KB(4); len < KB(32768); len *= 2) {
        memset(p + len / 2, (int)(len >> 12), len / 2);
        p = mremap(p, len, len * 2, MREMAP_MAYMOVE);
        need(p != MAP_FAILED && all_bytes(p + len / 2, (int)(len >> 12), len / 2) && all_bytes(p + len, 0, len), "double");
    }
    check(1, "doubled from 4 KB to 32 MB, contents checked at each step");
    return check_done();
}
