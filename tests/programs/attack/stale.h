// Owners for stale.c: their memory, and how it changes.
#ifndef MARGAY_STALE_H
#define MARGAY_STALE_H

#include "../common/check.h"
#include "random.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { PAGE = 4096, WORDS = PAGE / 8, ARENA_PAGES = 256, RUN_PAGES = 64, LARGE_PAGES = 512, FILE_PAGES = 256, HEAP_PAGES = 64 };
enum { MOST_TABLES = 900, TABLES_AT_ONCE = 8, TABLE_PAGES = 4, PHASE = 16, HELD = 64, VISITS = 97, STRIDE = 4, ONE_EXEC_IN = 80, SLOTS = 255, ONE_CHILD_IN = 40 };
#define ARENA UINT64_C(0x2000000000)
#define LARGE UINT64_C(0x2400000000)
#define FILES UINT64_C(0x2800000000)
// A few pages every 2 MiB: they need a page table of their own; and every GiB, where they need two.
#define SPARSE UINT64_C(0x3000000000)
#define FAR UINT64_C(0x4000000000)
#define FAR_TABLES 32
// What takes the memory that is not to be had: for good, and for a while.
#define BALLAST UINT64_C(0x1800000000)
#define FILLING UINT64_C(0x1c00000000)
#define SLACK UINT64_C(0x1800000)
#define TAG UINT64_C(0x57a1e00000000000)

static uint64_t state, visits, seen, gone, children;
static unsigned own, ranks;
static char *heap;
static sigjmp_buf back;
static volatile sig_atomic_t guarded;
// In rank 0, which stays what it is: who has been started.
static _Atomic unsigned started;
static _Atomic int pids[SLOTS];

static uint64_t next(uint64_t below) { return draw(&state) % below; }

static void fail(const char *what, unsigned rank, uint64_t at, uint64_t found)
{
    dprintf(1, "FAIL rank %u, of rank %u at %#lx: %s: %#lx\n", own, rank, at, what, found);
    _exit(1);
}
#define must(condition) ((condition) ? (void)0 : fail(#condition, own, 0, 0))

static uint64_t tagged(unsigned rank, uint64_t value) { return TAG | (uint64_t)rank << 32 | (value & 0xffffffff); }
static int is_of(unsigned rank, uint64_t word) { return word == 0 || word >> 32 == tagged(rank, 0) >> 32; }
static void *window(unsigned rank, uint64_t at) { return (void *)((uint64_t)(rank + 1) << 39 | at); }

static void caught(int signo, siginfo_t *info, void *context)
{
    (void)context;
    if (!guarded)
        fail("a signal", own, (uint64_t)info->si_addr, (uint64_t)signo);
    siglongjmp(back, 1);
}

// ---- As owner ------------------------------------------------------------

static void fill(uint64_t at, uint64_t pages)
{
    for (uint64_t page = 0; page < pages; page++)
        for (int word = 0; word < WORDS; word += 8)
            ((volatile uint64_t *)(at + page * PAGE))[word] = tagged(own, state + (uint64_t)word);
}

static void map(uint64_t at, uint64_t pages)
{
    void *got = mmap((void *)at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (got != MAP_FAILED)
        fill(at, pages);
}

// Maps from `at` on until there is no memory left; returns the end.
static uint64_t take_memory(uint64_t at)
{
    for (uint64_t bytes = 1 << 20; bytes >= PAGE; bytes /= 2)
        while (mmap((void *)at, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
            at += bytes;
    return at;
}

// Leaves little: what goes from one use is soon in another.
static void begin_memory(void)
{
    uint64_t end = take_memory(BALLAST);
    must(end > BALLAST + SLACK && munmap((void *)(end - SLACK), SLACK) == 0);
}

static uint64_t any_run(uint64_t *pages)
{
    *pages = 1 + next(RUN_PAGES);
    return ARENA + PAGE * next(ARENA_PAGES - *pages + 1);
}

static void move(void)
{
    uint64_t pages, others, from = any_run(&pages), to = any_run(&others);
    mremap((void *)from, pages * PAGE, others * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to);
}

// A large page, whole, in pieces, or with a hole.
static void change_large(void)
{
    uint64_t hole = LARGE + PAGE * next(LARGE_PAGES);
    switch (next(3)) {
    case 0: map(LARGE, LARGE_PAGES); break;
    case 1: munmap((void *)hole, PAGE * (1 + next(RUN_PAGES))); break;
    default: mprotect((void *)hole, PAGE, PROT_READ);
    }
}

static uint64_t table_at(uint64_t i) { return i < FAR_TABLES ? FAR + (i << 30) : SPARSE + ((i - FAR_TABLES) << 21); }

// More tables than there ever were, so that memory becomes tables; or all go, and are tables of other addresses.
static void change_tables(uint64_t *tables)
{
    static uint64_t there;
    if (there >= MOST_TABLES || next(24) == 0) {
        munmap((void *)SPARSE, (uint64_t)MOST_TABLES << 21);
        munmap((void *)FAR, (uint64_t)FAR_TABLES << 30);
        there = 0;
    }
    uint64_t wanted = next(4) ? *tables + TABLES_AT_ONCE : there + TABLES_AT_ONCE;
    while (there < wanted && there < MOST_TABLES)
        map(table_at(there++), TABLE_PAGES);
    *tables = there > *tables ? there : *tables;
}

// Its frames are those of a pool that all ranks share. Unmapped it stays so for a while: what others have of it is then stale.
static void change_file(void)
{
    static uint64_t mapped;
    char name[32];
    uint64_t pages = FILE_PAGES / 2 + next(FILE_PAGES / 2);
    if (mapped) {
        munmap((void *)FILES, FILE_PAGES * PAGE);
        mapped = 0;
        return;
    }
    snprintf(name, sizeof name, "stale.%u", own);
    int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC | O_TRUNC, 0600);
    must(fd >= 0 && unlink(name) == 0 && ftruncate(fd, (off_t)(pages * PAGE)) == 0);
    if (mmap((void *)FILES, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
        fill(FILES, pages);
        mapped = 1;
    }
    close(fd);
}

static void change_heap(void)
{
    uint64_t pages = next(HEAP_PAGES);
    if (brk(heap) == 0 && brk(heap + pages * PAGE) == 0)
        fill((uint64_t)heap, pages);
}

static void change_any(void)
{
    static const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    static const int advice[] = {MADV_DONTNEED, MADV_FREE, MADV_WILLNEED};
    uint64_t pages, at = any_run(&pages);
    switch (next(14)) {
    case 0: case 1: case 2: map(at, pages); break;
    case 3: munmap((void *)at, pages * PAGE); break;
    case 4: mprotect((void *)at, pages * PAGE, PICK(rights)); break;
    case 5: move(); break;
    case 6: madvise((void *)at, pages * PAGE, PICK(advice)); break;
    case 7: change_heap(); break;
    case 8: change_large(); break;
    default: change_file();
    }
}

// One step of four: peers look between them.
static void change(uint64_t step, uint64_t *tables)
{
    static uint64_t taken = FILLING;
    uint64_t at = ARENA + PAGE * RUN_PAGES * next(ARENA_PAGES / RUN_PAGES);
    switch (step % 4) {
    case 0: taken = take_memory(taken); break;
    case 1: // what peers have seen there is all that there is for tables
        munmap((void *)at, RUN_PAGES * PAGE);
        change_tables(tables);
        break;
    case 2:
        munmap((void *)FILLING, taken - FILLING);
        taken = FILLING;
        map(at, RUN_PAGES);
        break;
    default: change_any();
    }
}

#endif
