// Users for races.c: threads that use memory while it changes, by instructions and in system calls, their own rank's and through
// windows other ranks'.
#ifndef MARGAY_RACES_H
#define MARGAY_RACES_H

#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1536, KEPT_PAGES = 64, HEAP_PAGES = 64, USERS = 3, FILE_PAGES = 64, NOWHERE = 0x51ed, MOST_CPUS = 8192 };
// Several large pages; before them pages that are replaced all the time, and can be read and written all the time.
#define BASE ((char *)UINT64_C(0x2000000000))
#define KEPT ((char *)UINT64_C(0x1f00000000))
// What the upper half of a word says whose it is; a word of nobody is 0, or what getcpu says.
#define OF_RANK(rank) (UINT64_C(0x7ace0000) + (rank))
#define OF_FILE UINT64_C(0x7acef11e)

static uint64_t own, ranks, changes;
static char *heap;
static int zeros, sink, files[2];
static atomic_int over;
static _Atomic uint64_t uses, faults, calls;

static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t guarded;
static __thread uint64_t user_state;

static void fail(const char *what, uint64_t at, uint64_t found)
{
    dprintf(1, "FAIL rank %llu after %llu changes: %s: %#llx at %#llx\n", (unsigned long long)own, (unsigned long long)changes, what, (unsigned long long)found,
            (unsigned long long)at);
    _exit(1);
}

static uint64_t drawn(uint64_t below) { return draw(&user_state) % below; }

static int is_in(const char *at, const char *base, uint64_t pages) { return at >= base && at < base + pages * PAGE; }

// By whatever window.
static char *inside(const void *at) { return (char *)((uint64_t)at & ((UINT64_C(1) << 39) - 1)); }

static void met(int signo, siginfo_t *info, void *context)
{
    (void)context;
    char *at = inside(info->si_addr);
    if (!guarded || !(is_in(at, BASE, PAGES) || is_in(at, inside(heap), HEAP_PAGES)))
        fail(signo == SIGBUS ? "SIGBUS" : "SIGSEGV", (uint64_t)info->si_addr, (uint64_t)info->si_code);
    guarded = 0;
    faults++;
    siglongjmp(back, 1);
}

// A word of memory that changes, or its own mark stored there. What is seen there is nobody else's.
static void touch(char *at, uint64_t whose)
{
    if (sigsetjmp(back, 0) != 0)
        return;
    guarded = 1;
    volatile uint64_t *word = (volatile uint64_t *)at;
    if (drawn(2)) {
        *word = OF_RANK(own) << 32 | (uint32_t)user_state;
    } else {
        uint64_t found = *word, mark = found >> 32;
        // Ranks store in each other's.
        int known = mark == OF_FILE || (mark >= OF_RANK(0) && mark < OF_RANK(ranks));
        if (found > MOST_CPUS && !known)
            fail(whose == own ? "a word of nobody's" : "a word of nobody's in a window", (uint64_t)at, found);
    }
    guarded = 0;
    uses++;
}

// A call that has used the memory, or has found none there, or the first half only (`part`); in memory that is kept it must have.
static void came_of(long result, long wanted, long part, char *at, const char *what)
{
    int error = result == -1 ? errno : 0;
    int is_kept = is_in(at, KEPT, KEPT_PAGES);
    calls++;
    if (result != wanted && (is_kept || !(error == EFAULT || (part > 0 && result == part))))
        fail(what, (uint64_t)at, (uint64_t)(error ? -error : result));
}

static void call_with(char *at)
{
    uint64_t word = OF_RANK(own) << 32;
    struct iovec mine = {&word, 8}, there = {at, 8};
    switch (drawn(8)) {
    case 0: came_of(pread(zeros, at, 8, 0), 8, 0, at, "pread"); break;
    case 1: came_of(pwrite(sink, at, 8, 0), 8, 0, at, "pwrite"); break;
    case 2: came_of(process_vm_readv(getpid(), &mine, 1, &there, 1, 0), 8, 0, at, "process_vm_readv"); break;
    case 3: came_of(process_vm_writev(getpid(), &mine, 1, &there, 1, 0), 8, 0, at, "process_vm_writev"); break;
    case 4: came_of(syscall(SYS_getcpu, at, NULL, NULL), 0, 0, at, "getcpu"); break; // half a word
    case 5: came_of(syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0), 0, 0, at, "futex"); break;
    case 6: {
        struct iovec two[2] = {{at, 4}, {at + 4, 4}};
        came_of(preadv(zeros, two, 2, 0), 8, 4, at, "preadv");
        break;
    }
    default: {
        errno = 0;
        long result = syscall(SYS_futex, at, FUTEX_WAIT, NOWHERE, NULL, NULL, 0);
        came_of(errno == EAGAIN ? 0 : result, 0, 0, at, "futex, waiting");
    }
    }
}

static char *any_place(uint64_t *whose)
{
    *whose = own;
    uint64_t word = drawn(PAGE / 8) * 8;
    switch (drawn(8)) {
    case 0: return heap + drawn(HEAP_PAGES) * PAGE + word;
    case 1: case 2: case 3: return KEPT + drawn(KEPT_PAGES) * PAGE + word;
    case 4: // a few that are often changed, of another rank
        *whose = drawn(ranks);
        return (char *)((*whose + 1) << 39 | (uint64_t)(BASE + drawn(64) * PAGE + word));
    default: return BASE + drawn(drawn(2) ? PAGES : 64) * PAGE + word;
    }
}

static void *use(void *number)
{
    user_state = (own << 8 | (uint64_t)number) * 2 + 1;
    while (!over) {
        uint64_t whose;
        char *at = any_place(&whose);
        if (drawn(8))
            touch(at, whose);
        else if (whose == own)
            call_with(at);
    }
    return NULL;
}

#endif
