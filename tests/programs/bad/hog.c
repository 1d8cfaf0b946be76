// Requests more memory than there is, in the way its argument names: mmap (one
// map of 64 TB), touch (maps of 64 MB until refused, all written to), brk,
// commit (reserve much, then mprotect), malloc. Each is refused, none is fatal.
// holes: with nothing left, single pages are given back out of large ones.
#include "../common/check.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
#define MB(n) ((size_t)(n) << 20)

// Regression: munmap answered ENOMEM though the pages had gone, and what was mapped there later had their contents.
static void holes(void)
{
    enum { PAGES = 512, LARGE_BYTES = PAGES * PAGE_BYTES };
    char *first = mmap(NULL, MB(64), RW, ANON, -1, 0);
    need(first != MAP_FAILED, "mmap");
    for (size_t len = MB(16); len >= PAGE_BYTES; len /= 2)
        while (mmap(NULL, len, RW, ANON, -1, 0) != MAP_FAILED)
            ;
    char *large = first + LARGE_BYTES - (uintptr_t)first % LARGE_BYTES;
    memset(large, 7, LARGE_BYTES);
    int gone = 0, zero = 0;
    for (int i = 0; i < PAGES; i += 2)
        gone += munmap(large + i * PAGE_BYTES, PAGE_BYTES) == 0;
    check(gone == PAGES / 2, "each second page of a large one is unmapped");
    for (int i = 0; i < PAGES; i += 2) {
        char *page = mmap(large + i * PAGE_BYTES, PAGE_BYTES, RW, ANON | MAP_FIXED, -1, 0);
        zero += page != MAP_FAILED && all_bytes(page, 0, PAGE_BYTES) && all_bytes(page + PAGE_BYTES, 7, PAGE_BYTES);
    }
    check(zero == PAGES / 2, "zeros are mapped there, and the others are as they were");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    // Natively this bounds what the host would otherwise hand out lazily.
    struct rlimit limit = {MB(512), MB(512)};
    size_t got = 0;
    if (getenv("MARGAY_TEST_NATIVE"))
        setrlimit(RLIMIT_AS, &limit);
    void *keep = mmap(NULL, MB(1), RW, ANON, -1, 0);
    need(keep != MAP_FAILED, "mmap");
    memset(keep, 7, MB(1));

    if (strcmp(way, "mmap") == 0) {
        check_fails((long)mmap(NULL, MB(64) << 20, RW, ANON, -1, 0), ENOMEM, "64 TB");
        check_fails((long)mmap(NULL, MB(64) << 20, RW, ANON | MAP_NORESERVE, -1, 0), ENOMEM, "64 TB, NORESERVE");
    } else if (strcmp(way, "touch") == 0) {
        char *p;
        while ((p = mmap(NULL, MB(64), RW, ANON, -1, 0)) != MAP_FAILED && got < MB(65536)) {
            memset(p, 1, MB(64));
            got += MB(64);
        }
        check(p == MAP_FAILED && errno == ENOMEM, "maps of 64 MB are refused in the end");
        check(got > 0, "after some");
    } else if (strcmp(way, "brk") == 0) {
        while (got < MB(65536) && sbrk(MB(16)) != (void *)-1)
            got += MB(16);
        check(got < MB(65536) && errno == ENOMEM, "the break is refused in the end");
    } else if (strcmp(way, "commit") == 0) {
        // With a hole behind it, where otherwise pages may follow that natively cannot be written at all (EACCES).
        char *p = mmap(NULL, MB(256) + PAGE_BYTES, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
        need(p != MAP_FAILED && munmap(p + MB(256), PAGE_BYTES) == 0, "reserve");
        size_t len = MB(65536);
        check(mprotect(p, MB(256), RW) == 0, "256 MB committed");
        check_fails(mprotect(p, len, RW), ENOMEM, "64 GB are not");
        memset(p, 1, MB(256));
    } else if (strcmp(way, "malloc") == 0) {
        while (got < MB(65536)) {
            char *p = malloc(MB(8));
            if (p == NULL)
                break;
            memset(p, 1, MB(8));
            got += MB(8);
        }
        check(got > 0 && got < MB(65536) && errno == ENOMEM, "malloc returns NULL in the end");
    } else if (strcmp(way, "holes") == 0) {
        holes();
    } else {
        return 2;
    }
    check(all_bytes(keep, 7, MB(1)), "what was there before is unharmed");
    check(getppid() > 0, "and the program goes on");
    return check_done();
}
