// Reserving addresses with PROT_NONE and committing pieces with mprotect, as
// malloc arenas and language runtimes do: 128 MB trimmed to an aligned 64 MB,
// then 16 GB of addresses of which a few pages are used.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, RESERVE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
#define MB(n) ((size_t)(n) << 20)

static void arena(void)
{
    char *raw = mmap(NULL, MB(128), PROT_NONE, RESERVE, -1, 0);
    need(raw != MAP_FAILED, "mmap");
    char *heap = (char *)(((uintptr_t)raw + MB(64) - 1) & ~(MB(64) - 1));
    if (heap > raw)
        need(munmap(raw, (size_t)(heap - raw)) == 0, "trim the start");
    if (heap + MB(64) < raw + MB(128))
        need(munmap(heap + MB(64), (size_t)(raw + MB(128) - heap) - MB(64)) == 0, "trim the end");
    check((uintptr_t)heap % MB(64) == 0, "128 MB reserved, trimmed to an aligned 64 MB");
    check(!can_read(heap) && !can_read(heap + MB(64) - 1), "not accessible");

    size_t committed = 0;
    for (size_t step = 132 << 10; committed + step < MB(24); step = step * 5 / 4 / PAGE_BYTES * PAGE_BYTES) {
        need(mprotect(heap + committed, step, RW) == 0, "commit");
        need(all_bytes(heap + committed, 0, step), "zero");
        memset(heap + committed, 0xcc, step);
        committed += step;
    }
    check(all_bytes(heap, 0xcc, committed), "%zu KB committed step by step, zero each", committed >> 10);
    check(!can_read(heap + committed), "the next page still faults");
    check(mmap(heap + MB(8), MB(8), PROT_NONE, RESERVE | MAP_FIXED, -1, 0) == heap + MB(8), "8 MB given back");
    check(!can_read(heap + MB(8)) && can_read(heap + MB(8) - 1) && can_read(heap + MB(16)), "exactly these");
    check(mprotect(heap + MB(8), MB(8), RW) == 0 && all_bytes(heap + MB(8), 0, MB(8)), "committed again: zero");
    check(munmap(heap, MB(64)) == 0, "unmapped");
}

int main(void)
{
    arena();
    char *big = mmap(NULL, MB(16384), PROT_NONE, RESERVE, -1, 0);
    check(big != MAP_FAILED, "16 GB of addresses cost no memory");
    int right = 0;
    for (size_t i = 0; i < 16; i++) {
        char *p = big + i * MB(1024) + i * PAGE_BYTES;
        need(mprotect(p, PAGE_BYTES, RW) == 0, "commit");
        memset(p, (int)i, PAGE_BYTES);
        right += i == 0 || !can_read(p - 1);
        right += !can_read(p + PAGE_BYTES);
    }
    check(right == 32, "one page in each GB, its neighbours fault");
    for (size_t i = 0; i < 16; i++)
        right -= all_bytes(big + i * MB(1024) + i * PAGE_BYTES, (int)i, PAGE_BYTES);
    check(right == 16, "each keeps its bytes");
    check(munmap(big, MB(16384)) == 0 && !can_read(big), "unmapped in one go");
    return check_done();
}
