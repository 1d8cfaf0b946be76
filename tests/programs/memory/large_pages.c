// Operations on 4 KB inside maps that large pages may back: 24 MB aligned to
// 2 MB, of which single pages are protected, unmapped, moved and dropped.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
#define MB(n) ((size_t)(n) << 20)

int main(void)
{
    char *raw = mmap(NULL, MB(26), RW, ANON, -1, 0);
    need(raw != MAP_FAILED, "mmap");
    char *p = (char *)(((uintptr_t)raw + MB(2) - 1) & ~(MB(2) - 1));
    seq_fill(p, 0, MB(24) / 8);
    check(seq_matches(p, 0, MB(24) / 8), "24 MB aligned to 2 MB filled");

    char *one = p + MB(2) + 77 * PAGE_BYTES;
    check(mprotect(one, PAGE_BYTES, PROT_READ) == 0, "one page read-only");
    check(!can_write(one) && can_write(one - 1) && can_write(one + PAGE_BYTES), "only this one");
    check(munmap(p + MB(6), PAGE_BYTES) == 0 && !can_read(p + MB(6)), "the first page of 2 MB unmapped");
    check(can_read(p + MB(6) - 1) && can_read(p + MB(6) + PAGE_BYTES), "its neighbours are there");
    check(munmap(p + MB(10) - PAGE_BYTES, PAGE_BYTES) == 0 && can_read(p + MB(10)), "the last page of 2 MB unmapped");
    check(madvise(p + MB(12) + 5 * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED) == 0, "one page dropped");
    check(all_bytes(p + MB(12) + 5 * PAGE_BYTES, 0, PAGE_BYTES), "is zero");
    seq_fill(p + MB(12) + 5 * PAGE_BYTES, (MB(12) + 5 * PAGE_BYTES) / 8, PAGE_BYTES / 8);

    char *moved = mremap(p + MB(14) + PAGE_BYTES, MB(3), MB(3), MREMAP_MAYMOVE | MREMAP_FIXED, p + MB(19) + 3 * PAGE_BYTES);
    check(moved == p + MB(19) + 3 * PAGE_BYTES, "3 MB moved to another alignment");
    check(seq_matches(moved, (MB(14) + PAGE_BYTES) / 8, MB(3) / 8), "with their contents");
    check(!can_read(p + MB(14) + PAGE_BYTES) && !can_read(p + MB(17)), "out of the old place");
    check(seq_matches(p + MB(17) + PAGE_BYTES, (MB(17) + PAGE_BYTES) / 8, MB(2) / 8), "what lies behind stays");
    check(seq_matches(moved + MB(3), (MB(22) + 3 * PAGE_BYTES) / 8, (MB(2) - 3 * PAGE_BYTES) / 8), "here too");

    check(mprotect(p + MB(2), MB(4), PROT_NONE) == 0 && !can_read(p + MB(4)), "4 MB to PROT_NONE");
    check(mprotect(p + MB(2), MB(4), RW) == 0 && seq_matches(p, 0, MB(6) / 8), "and back: 6 MB as they were");
    check(madvise(p, MB(6), MADV_DONTNEED) == 0 && all_bytes(p, 0, MB(6)), "6 MB dropped: zero");
    check(mmap(p + MB(6), PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0) == p + MB(6), "a hole filled");
    check(all_bytes(p + MB(6), 0, PAGE_BYTES), "with zeros");
    check(seq_matches(p + MB(6) + PAGE_BYTES, (MB(6) + PAGE_BYTES) / 8, (MB(4) - 2 * PAGE_BYTES) / 8), "beside it all kept");
    check(munmap(raw, MB(26)) == 0 && !can_read(p) && !can_read(p + MB(24) - 1), "all unmapped");
    return check_done();
}
