// Arguments for calls.c: good, wild, across ends, in windows and in memory that changes; what is left out, and what is tamed.
#ifndef MARGAY_CALLS_H
#define MARGAY_CALLS_H

#include "bare.h"
#include "random.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

enum { PAGE = 4096, BURST = 256, NUMBERS = 512, DATA_PAGES = 32, HOLE_PAGES = 64, CANARY_WORDS = 8192, MOVED_WORDS = 512 };
enum { OUT = 650, HOME, QUIET, DESCRIPTORS_END = 600, TICK_US = 3000, FILE_LIMIT = 1 << 20, ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003 };
enum { OF_MEMORY, OF_NODE, OF_PATHS, TRANSFERS, OTHERS, CALL_KINDS };
#define GIB (UINT64_C(1) << 30)

static uint64_t state, canary[CANARY_WORDS], ticks;
// Reserved addresses: `data` is for buffers, `holes` is for calls that change memory and never touched by the program itself.
static char *reserve, *data, *holes;
static long own_pid, fs_base, heap_end;
static uint64_t calls_made, calls_good, calls_interrupted, good_of[CALL_KINDS], words_moved;
static struct {
    uint64_t number;
    long args[6], result;
} last[8];

static uint64_t word(uint64_t k) { return (k + 1) * UINT64_C(0x9E3779B97F4A7C15); }

static uint64_t next(uint64_t below) { return draw(&state) % below; }

static void fail(const char *what, long value)
{
    dprintf(OUT, "FAIL %s: %ld, after call %llu\n", what, value, (unsigned long long)calls_made);
    for (uint64_t i = calls_made > 8 ? calls_made - 8 : 0; i < calls_made; i++) {
        long *a = last[i % 8].args;
        dprintf(OUT, "  %lld(%#lx, %#lx, %#lx, %#lx, %#lx, %#lx) = %ld\n", (long long)last[i % 8].number, a[0], a[1], a[2], a[3], a[4],
                a[5], last[i % 8].result);
    }
    CALL(SYS_exit_group, 1);
    __builtin_unreachable();
}
#define must(condition) ((condition) ? (void)0 : fail(#condition, 0))

// Arguments.

static const char *const paths[] = {
    "fz_a", "fz_b", "fz_c", "fz_dir", "fz_dir/x", "fz_a/below", "fz_link", "fz_fifo", "", ".", "..", "../..", "/", "/dev/null",
    "/dev/fd/5", "/proc/self/fd/9", "/proc/self/mem", "/proc/self/maps", "/proc/self/task", "/proc/1/environ", "/proc/sys/kernel",
    "fz_dir/../fz_b", "/dev/xpmem", "/dev/kvm", "/nowhere", "user.attack",
};

static const uint64_t wild[] = {
    0, 1, 8, 4095, 65535, 65536, 0x400000, 0x7ffffff000, 0x7fffffffff, 0x8000000000, 0x8000010000, 0x400000000000, 0x7ffffffff000, 0x7fffffffffff,
    0x800000000000, 0x8000000000000000, 0xffff7fffffffffff, 0xffff800000000000, 0xffff800000100000, 0xffffff0000000000,
    0xffffffff80000000, 0xffffffff80100000, 0xffffffffff600000, 0xfffffffffffff000, 0xfffffffffffffff8, 0xffffffffffffffff,
};

static long near(char *memory, uint64_t pages)
{
    uint64_t at = next(pages) * PAGE;
    switch (next(4)) {
    case 0: return (long)(memory + at + next(PAGE));
    case 1: return (long)(memory + pages * PAGE - 1 - next(64)); // across the end
    case 2: return (long)(memory + at + PAGE - 1 - next(16));    // across a page's end
    default: return (long)(memory + at);
    }
}

static long pointer(void)
{
    uint64_t slot = 1 + next(next(4) ? 17 : 255);
    switch (next(16)) {
    case 0: case 1: return (long)PICK(wild);
    case 2: case 3: case 4: return near(holes, HOLE_PAGES);
    case 5: return (long)(slot << 39 | (uint64_t)near(next(2) ? data : holes, DATA_PAGES)); // a window
    case 6: return (long)(getauxval(AT_SYSINFO_EHDR) - PAGE + next(3 * PAGE));
    default: return near(data, DATA_PAGES);
    }
}

static long number(void)
{
    static const uint64_t values[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 63, 64, 65, 100, 128, 511, 4095, 4096, 4097, 8192,
                                      65536, 1 << 20, 2 << 20, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff,
                                      0x8000000000000000, 0x8000000000000001, ~0ul, ~1ul, ~99ul, -4095ul, -4096ul};
    return next(16) ? (long)PICK(values) : (long)(1ul << next(64));
}

// Flags, modes and commands are mostly small or a few bits.
static long flags(void) { return (long)(next(2) ? next(64) : 1ul << next(32) | next(8) | (next(2) ? 1ul << next(32) : 0)); }

enum { KINDS = 8 };

static long argument(uint64_t kind)
{
    switch (kind) {
    case 0: return (long)PICK(paths);
    case 1: return (long)(3 + next(16)); // a descriptor
    case 2: return flags();
    case 3: return number();
    case 4: return next(4) ? AT_FDCWD : own_pid;
    default: return pointer();
    }
}

// Buffers hold vectors of pointers and lengths, small numbers, and paths.
static void fill_data(void)
{
    for (uint64_t *at = (uint64_t *)data; at < (uint64_t *)(data + DATA_PAGES * PAGE);) {
        int kind = (int)next(4);
        for (int i = 0; i < 64; i++)
            *at++ = (uint64_t)(kind == 0 ? argument(next(KINDS)) : kind == 1 ? number() : (i % 2) ? number() : pointer());
        if (kind == 3)
            strcpy((char *)(at - 64), PICK(paths));
    }
}

// Calls that are left out: they would end or blind the program, or harm others that use the machine.

static const char *left_out(uint64_t number)
{
    switch ((uint32_t)number & ~0x40000000u) {
    case SYS_exit: case SYS_exit_group: return "ends it";
    case SYS_rt_sigreturn: return "goes where its frame says: frames are another program's";
    case SYS_fork: case SYS_vfork: case SYS_clone: case SYS_clone3: return "makes another, that would go on from here";
    case SYS_execve: case SYS_execveat: return "begins anew, with what its limits are by then";
    case SYS_sync: case SYS_syncfs: return "has the whole host write";
    default: return NULL;
    }
}

static const uint32_t changes_memory[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_mbind, SYS_remap_file_pages, SYS_pkey_mprotect};

static int is_in(const uint32_t *list, size_t count, uint64_t number)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == number)
            return 1;
    return 0;
}

// Where calls may change memory.
static long changeable(void)
{
    switch (next(8)) {
    case 0: return (long)PICK(wild);
    case 1: return (long)(getauxval(AT_SYSINFO_EHDR) - PAGE + next(3) * PAGE);
    case 2: return (long)((1 + next(17)) << 39 | (uint64_t)holes);
    case 3: return near(holes, HOLE_PAGES);
    default: return (long)(holes + next(HOLE_PAGES) * PAGE);
    }
}

// Not so much that it reaches the program itself: Linux takes away what there is before it says that not all is there.
static long length(void)
{
    long any = next(4) ? (long)(next(next(2) ? 8 : 600) * PAGE + (next(4) ? 0 : next(PAGE))) : number();
    return (uint64_t)any > 4 * GIB && (uint64_t)any < -UINT64_C(65536) ? PAGE : any;
}

// Not another's: Linux has them all.
static long own_segment(void) { return CALL(SYS_shmget, IPC_PRIVATE, (1 + next(8)) * PAGE, 0600); }

static void tame(uint64_t number, long *a)
{
    // Another rank may not have its handlers yet.
    static const long mild[] = {0, SIGURG, SIGWINCH, SIGCONT, SIGCHLD, 65, -1, 0x7fffffff, (long)0x8000000000000000};
    static uint64_t open_mask;
    long masks[] = {(long)&open_mask, 0, (long)PICK(wild)};
    if (is_in(changes_memory, sizeof changes_memory / sizeof *changes_memory, number)) {
        a[0] = changeable();
        a[1] = length();
        if (number == SYS_mremap) {
            a[2] = length();
            a[4] = changeable();
        }
    }
    switch (number) {
    case SYS_kill: case SYS_tkill: a[1] = PICK(mild); break;
    case SYS_rt_sigqueueinfo: a[1] = PICK(mild); break;
    case SYS_tgkill: case SYS_rt_tgsigqueueinfo: a[2] = PICK(mild); break;
    case SYS_fcntl: a[1] = (int)a[1] == F_SETSIG ? F_GETSIG : a[1]; break;
    // No limit of file sizes holds for what it reserves beyond the end (FALLOC_FL_KEEP_SIZE): it filled the host's disk.
    case SYS_fallocate: a[3] = a[3] > FILE_LIMIT ? PAGE : a[3]; break;
    case SYS_close_range: a[1] = (uint64_t)a[1] >= DESCRIPTORS_END ? DESCRIPTORS_END - 1 : a[1]; break;
    case SYS_setpriority: a[2] = -1; break;
    case SYS_setrlimit: case SYS_prlimit64: // not its time, files, descriptors and addresses
        if ((uint32_t)a[number == SYS_prlimit64] <= RLIMIT_NOFILE || (uint32_t)a[number == SYS_prlimit64] == RLIMIT_AS)
            a[number == SYS_prlimit64 ? 2 : 1] = (long)PICK(wild);
        break;
    // A mask that blocks the timer would let them wait for ever.
    case SYS_rt_sigsuspend: a[0] = masks[next(3)]; break;
    case SYS_ppoll: a[3] = masks[next(3)]; break;
    case SYS_epoll_pwait: case SYS_epoll_pwait2: a[4] = masks[next(3)]; break;
    case SYS_pselect6: a[5] = masks[1 + next(2)]; break;
    case SYS_shmget: a[0] = IPC_PRIVATE; break;
    case SYS_shmat: a[0] = own_segment(); a[1] = next(4) ? changeable() : 0; break;
    case SYS_shmctl: a[0] = own_segment(); break;
    case SYS_shmdt: a[0] = changeable(); break;
    case SYS_brk: a[0] = next(2) ? heap_end + (long)next(1 << 21) : (long)PICK(wild); break;
    default: break;
    }
}

#endif
