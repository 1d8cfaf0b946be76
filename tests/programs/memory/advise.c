// madvise: DONTNEED brings zeros, also in the middle and after mprotect; advice
// that changes nothing keeps contents; refusals.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, PAGES = 1024 };

int main(void)
{
    const size_t len = (size_t)PAGES * PAGE_BYTES, part = 100 * PAGE_BYTES;
    char *p = mmap(NULL, len, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    memset(p, 1, len);
    check(madvise(p, len, MADV_DONTNEED) == 0 && all_bytes(p, 0, len), "DONTNEED of 4 MB: zero");
    memset(p, 2, len);
    check(madvise(p + part, part, MADV_DONTNEED) == 0, "DONTNEED of 100 pages in the middle");
    check(all_bytes(p, 2, part) && all_bytes(p + part, 0, part) && all_bytes(p + 2 * part, 2, len - 2 * part),
          "exactly these are zero");
    p[part + 5] = 3;
    check(madvise(p + part, 1, MADV_DONTNEED) == 0 && p[part + 5] == 0, "a length of 1 byte takes the page");

    for (int i = 0; i < PAGES; i += 2)
        p[(size_t)i * PAGE_BYTES] = 4;
    need(madvise(p, len, MADV_DONTNEED) == 0, "madvise");
    check(all_bytes(p, 0, len), "pages written and not written alike");
    check(madvise(p, len, MADV_DONTNEED) == 0 && all_bytes(p, 0, len), "twice");
    p[0] = 5;
    p[PAGE_BYTES] = 5;
    need(mprotect(p, PAGE_BYTES, PROT_READ) == 0 && mprotect(p + PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
    check(madvise(p, 2 * PAGE_BYTES, MADV_DONTNEED) == 0, "DONTNEED of read-only and PROT_NONE pages");
    need(mprotect(p, 2 * PAGE_BYTES, RW) == 0, "mprotect");
    check(all_bytes(p, 0, 2 * PAGE_BYTES), "they are zero");

    static const int harmless[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTDUMP, MADV_DODUMP};
    memset(p, 6, len);
    int kept = 0;
    for (int i = 0; i < 6; i++)
        kept += madvise(p, len, harmless[i]) == 0 && all_bytes(p, 6, len);
    check(kept == 6, "NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTDUMP, DODUMP keep contents");
    check(madvise(p, 0, MADV_DONTNEED) == 0 && p[0] == 6, "a length of 0");

    check_fails(madvise(p + 1, PAGE_BYTES, MADV_DONTNEED), EINVAL, "an unaligned address");
    check_fails(madvise(p, PAGE_BYTES, 9999), EINVAL, "unknown advice");
    need(munmap(p + part, PAGE_BYTES) == 0, "munmap");
    check_fails(madvise(p, 2 * part, MADV_DONTNEED), ENOMEM, "a range with a hole");
    check(all_bytes(p, 0, part) && all_bytes(p + part + PAGE_BYTES, 0, part - PAGE_BYTES), "is done around the hole");
    check(p[2 * part] == 6, "and not beyond");

    // Linux reads it again from the file.
    char *text = (char *)((uintptr_t)main & ~(uintptr_t)(PAGE_BYTES - 1)), before[PAGE_BYTES];
    memcpy(before, text, PAGE_BYTES);
    (void)!madvise(text, PAGE_BYTES, MADV_DONTNEED);
    check(memcmp(before, text, PAGE_BYTES) == 0, "DONTNEED leaves the text that runs as it is");
    return check_done();
}
