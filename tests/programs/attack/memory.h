// The model of memory.c: what each page is, and what a touch of it meets.
#ifndef MARGAY_MEMORY_H
#define MARGAY_MEMORY_H

#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 2048, HEAP_PAGES = 64, LOOK_EVERY = 512, NONE = 0xff };
// Several large pages, so that some are split and some moved whole.
#define BASE ((char *)UINT64_C(0x2000000000))

// Pages of one id are in one VMA (they may be in one with other ids, too).
static struct page {
    uint8_t prot; // NONE: not mapped
    uint32_t id;
    uint64_t tag;
} pages[PAGES], heap[HEAP_PAGES];
static uint64_t heap_pages, state, digest = 1, done;
static char *heap_start;
static uint32_t last_id;
static int ends[2];
static sigjmp_buf back;
static volatile int fault_code;
static char doing[160], line[256]; // no memory of the C library

static uint64_t next(uint64_t below) { return draw(&state) % below; }

static void expect(const char *what, uint64_t page, long wanted, long got)
{
    digest = (digest ^ (uint64_t)got) * UINT64_C(0x9E3779B97F4A7C15);
    digest ^= digest >> 29;
    if (wanted == got)
        return;
    printf("FAIL operation %llu: %s: %s, page %llu: %#lx instead of %#lx\n", (unsigned long long)done, doing, what, (unsigned long long)page, got, wanted);
    exit(1);
}

// The result of a call, or minus its errno.
static long result(long returned) { return returned == -1 ? -errno : returned; }

// What a page holds.

static void met(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    fault_code = info->si_code;
    siglongjmp(back, 1);
}

// The value, or the code of the fault (negative: values are not).
static long load(const char *at)
{
    if (sigsetjmp(back, 1))
        return -fault_code;
    return (long)(*(volatile const uint64_t *)at & INT64_MAX);
}

static long store(char *at, uint64_t value)
{
    if (sigsetjmp(back, 1))
        return -fault_code;
    *(volatile uint64_t *)at = value;
    return 0;
}

static long fault_of(const struct page *page) { return page->prot == NONE ? -SEGV_MAPERR : -SEGV_ACCERR; }
static int readable(const struct page *page) { return page->prot != NONE && page->prot != PROT_NONE; }
static int writable(const struct page *page) { return page->prot != NONE && page->prot & PROT_WRITE; }

static void look_at(const char *at, const struct page *page, uint64_t index)
{
    long wanted = readable(page) ? (long)page->tag : fault_of(page);
    expect("its first word", index, wanted, load(at));
    expect("its last word", index, wanted, load(at + PAGE - 8));
}

static void touch(char *at, struct page *page, uint64_t index)
{
    uint64_t tag = next(UINT32_MAX) << 20 | index;
    look_at(at, page, index);
    expect("a store to it", index, writable(page) ? 0 : fault_of(page), store(at, tag));
    if (writable(page)) {
        page->tag = tag;
        expect("another store", index, 0, store(at + PAGE - 8, tag));
        look_at(at, page, index);
    }
}

// Linux reads and writes the page. Not across pages: how much is then done is the pipe's affair.
static void ship(char *at, struct page *page, uint64_t index)
{
    uint64_t seen = 0, tag = next(UINT32_MAX);
    strcpy(doing, "shipped");
    long wanted = readable(page) ? 8 : -EFAULT;
    expect("write from it", index, wanted, result(write(ends[1], at + PAGE - 8, 8)));
    if (wanted == 8)
        expect("what came out", index, (long)page->tag, read(ends[0], &seen, 8) == 8 ? (long)seen : -1);
    expect("a write", index, 8, result(write(ends[1], &tag, 8)));
    wanted = writable(page) ? 8 : -EFAULT;
    expect("read into it", index, wanted, result(read(ends[0], at, 8)));
    if (wanted == 8) {
        page->tag = tag;
        expect("a store", index, 0, store(at + PAGE - 8, tag));
    } else { // The pipe keeps it, or has lost it: a new one.
        close(ends[0]);
        close(ends[1]);
        expect("pipe", 0, 0, result(pipe(ends)));
    }
    look_at(at, page, index);
}

#endif
