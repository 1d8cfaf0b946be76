// process_vm_readv and writev of all that can be wrong, of two processes: natively this one and its child, on a node ranks 0 and 1.
// What they have in common is a file. Only the first checks and prints, and both runs must print the same.
#include "pages.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { AREA_BYTES = 64 << 10, MOST = 1024, NOBODY = 1 << 30 };
#define KERNEL ((void *)UINT64_C(0xffff800000000000))
#define TOP ((void *)(UINT64_MAX - 5))
#define ENDLESS ((size_t)SSIZE_MAX)
#define NEGATIVE ((size_t)-1)

// At the same address in both. The second has 'a', 'b', ... in its own, the first what it copies to.
static char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));
static const char constant[64] = "a constant";
static struct iovec many[MOST + 1];

// In the file.
static struct board {
    _Atomic int step;
    _Atomic pid_t pid;
    char *_Atomic edge;      // of the second: the last byte of a page before one that is not there
    char *_Atomic read_only; // a page that follows one that can be written
    char *_Atomic none;      // PROT_NONE
} *board;

static pid_t other;
static char *here; // of the first: the start of a page before one that is not there

// The start of `count` pages before one that is not there.
static char *pages_before_a_hole(size_t count)
{
    char *at = pages(count + 1, PROT_READ | PROT_WRITE);
    need(munmap(at + count * PAGE_BYTES, PAGE_BYTES) == 0, "munmap");
    return at;
}

static void next_step(int step)
{
    board->step = step;
    AWAIT(board->step == step + 1);
}

static void second(void)
{
    for (int i = 0; i < AREA_BYTES; i++)
        area[i] = (char)('a' + i % 26);
    board->edge = pages_before_a_hole(1) + PAGE_BYTES - 1;
    char *two = pages(2, PROT_READ | PROT_WRITE);
    need(mprotect(two + PAGE_BYTES, PAGE_BYTES, PROT_READ) == 0, "mprotect");
    board->read_only = two + PAGE_BYTES;
    board->none = pages(1, PROT_NONE);
    board->pid = getpid();
    AWAIT(board->step == 1);
    prctl(PR_SET_DUMPABLE, 0);
    board->step = 2;
    AWAIT(board->step == 3);
    _exit(0);
}

static ssize_t get(long who, struct iovec *l, unsigned long locals, struct iovec *r, unsigned long remotes, unsigned long flags)
{
    return syscall(SYS_process_vm_readv, who, l, locals, r, remotes, flags);
}
static ssize_t put(long who, struct iovec *l, unsigned long locals, struct iovec *r, unsigned long remotes, unsigned long flags)
{
    return syscall(SYS_process_vm_writev, who, l, locals, r, remotes, flags);
}
// One vector on each side.
static ssize_t get_one(void *to, size_t bytes, void *from, size_t from_bytes)
{
    return get(other, &(struct iovec){to, bytes}, 1, &(struct iovec){from, from_bytes}, 1, 0);
}
static ssize_t put_one(void *from, size_t bytes, void *to, size_t to_bytes)
{
    return put(other, &(struct iovec){from, bytes}, 1, &(struct iovec){to, to_bytes}, 1, 0);
}
static int is(const void *at, const char *text) { return memcmp(at, text, strlen(text)) == 0; }

// Which of two wrong things is said.
static void order(void)
{
    struct iovec ten = {area, 10}, empty = {area, 0}, wild = {KERNEL, 0};
    struct iovec *bad = (struct iovec *)(here + PAGE_BYTES - sizeof(struct iovec)); // and one that cannot be read
    check_fails(get(NOBODY, KERNEL, NEGATIVE, KERNEL, NEGATIVE, 1), EINVAL, "flags");
    check_fails(get(other, &ten, 1, &ten, 1, 1UL << 32), EINVAL, "flags beyond an int");
    check_fails(get(NOBODY, KERNEL, MOST + 1, KERNEL, 1, 0), EINVAL, "1,025 local vectors that cannot be read");
    check_fails(get(NOBODY, &ten, 1UL << 32 | 1, &ten, 1, 0), ESRCH, "of the number of local vectors an int counts");
    check(get(NOBODY, KERNEL, 1UL << 32, &ten, 1, 0) == 0, "which may be none");
    check_fails(get(NOBODY, &ten, 1, &ten, 1UL << 32 | 1, 0), EINVAL, "of the number of remote ones all of it");
    check_fails(get(NOBODY, KERNEL, 1, KERNEL, MOST + 1, 0), EFAULT, "a local vector that cannot be read before 1,025 remote ones");
    check(get(NOBODY, KERNEL, 0, KERNEL, MOST + 1, 0) == 0, "no local vector before 1,025 remote ones");
    check(get(NOBODY, &empty, 1, KERNEL, MOST + 1, 0) == 0, "nor a local byte");
    check_fails(get(NOBODY, &wild, 1, KERNEL, MOST + 1, 0), EFAULT, "unless it is of the kernel");
    check_fails(get(NOBODY, &ten, 1, KERNEL, MOST + 1, 0), EINVAL, "1,025 remote vectors of nobody that cannot be read");
    check_fails(get(NOBODY, &ten, 1, KERNEL, 1, 0), EFAULT, "a remote vector of nobody that cannot be read");
    check(get(NOBODY, &ten, 1, KERNEL, 0, 0) == 0, "no remote vector of nobody");
    check(get(NOBODY, &ten, 1, &wild, 1, 0) == 0, "a remote vector without bytes of nobody");
    *bad = (struct iovec){area, NEGATIVE};
    check_fails(get(NOBODY, bad, 1, &ten, 1, 0), EINVAL, "a negative length");
    check_fails(get(NOBODY, &ten, 1, bad, 1, 0), EINVAL, "a negative length there");
    bad->iov_len = 10;
    check_fails(get(NOBODY, bad, 2, &ten, 1, 0), EFAULT, "a second vector that cannot be read");
    check_fails(get(NOBODY, &ten, 1, bad, 2, 0), EFAULT, "there");
    struct iovec two[2] = {{KERNEL, 10}, {area, NEGATIVE}};
    check_fails(get(NOBODY, two, 2, &ten, 1, 0), EINVAL, "the kernel's memory before a negative length");
    two[1].iov_len = 10;
    check_fails(get(NOBODY, two, 2, bad, 2, 0), EFAULT, "the kernel's memory");
    check_fails(get(NOBODY, &ten, 1, two, 2, 0), ESRCH, "the kernel's memory of nobody");
}

static void processes(void)
{
    struct iovec ten = {area, 10};
    check_fails(get(NOBODY, &ten, 1, &ten, 1, 0), ESRCH, "nobody");
    check_fails(get(0, &ten, 1, &ten, 1, 0), ESRCH, "process 0");
    check_fails(get(-1, &ten, 1, &ten, 1, 0), ESRCH, "process -1");
    check_fails(get(-other, &ten, 1, &ten, 1, 0), ESRCH, "a group");
    check_fails(get(INT_MIN, &ten, 1, &ten, 1, 0), ESRCH, "the least number");
    check(get(1L << 32 | other, &ten, 1, &ten, 1, 0) == 10 && is(area, "abcdefghij"), "a number is an int");
    check(get(getpid(), &ten, 1, &ten, 1, 0) == 10, "oneself");
}

static void lengths(void)
{
    check_fails(get_one(TOP, 100, area, 100), EFAULT, "a range that wraps");
    check_fails(get_one(area, 100, TOP, 100), EFAULT, "there");
    check_fails(put_one(area, 100, TOP, ENDLESS), EFAULT, "written, and longer");
    check_fails(get_one(area, 10, KERNEL, 10), EFAULT, "the kernel's memory there");
    check_fails(get_one(KERNEL, 10, area, 10), EFAULT, "and here");
    struct iovec two[2] = {{area, 10}, {area, ENDLESS}}, r = {area, 100};
    check_fails(get(other, two, 2, &r, 1, 0), EFAULT, "a local range beyond all memory");
    check_fails(put(other, two, 2, &r, 1, 0), EFAULT, "written");
    check(get(other, &r, 1, two, 2, 0) == 100, "a remote one, of which that is not used");
    check(get_one(area, 100, area, ENDLESS) == 100, "the only one, too");
    check(get_one(here, PAGE_BYTES, board->edge - 7, ENDLESS) == 8, "or up to its end");
    struct iovec long_ones[3] = {{area, 10}, {area, 0x7ffff000}, {area, 0x7ffff000}};
    check(get(other, long_ones, 3, &r, 1, 0) == 100, "more than a call copies");
    long_ones[2].iov_base = KERNEL;
    check_fails(get(other, long_ones, 3, &r, 1, 0), EFAULT, "of the kernel where nothing would be copied any more");
}

static void parts(void)
{
    char *edge = board->edge, *read_only = board->read_only;
    check(get_one(area, 100, edge - 7, 100) == 8, "up to the end of a mapping");
    check(put_one(area, 100, edge - 7, 100) == 8, "written");
    check_fails(get_one(area, 100, edge + 1, 100), EFAULT, "what is not mapped");
    check_fails(get_one(area, 100, board->none, 100), EFAULT, "what may not be read");
    check(get_one(area, 100, read_only, 100) == 100, "what may");
    check_fails(put_one(area, 100, read_only, 100), EFAULT, "and not be written");
    check(put_one(area, 3000, read_only - 1000, 3000) == 1000, "up to there");
    check(get_one(here + PAGE_BYTES - 13, 50, area, 50) == 13, "up to the end of our memory");
    check(put_one(here + PAGE_BYTES - 13, 50, area, 50) == 13, "written");
    check_fails(get_one((void *)(uintptr_t)constant, 10, area, 10), EFAULT, "to what we may not write");
    check(put_one((void *)(uintptr_t)constant, 10, area, 10) == 10 && get_one(area, 26, area, 26) == 26 && is(area, "a constant"),
          "and from there");
    struct iovec l[3] = {{area, 20}, {here + PAGE_BYTES, 5}, {area + 20, 20}}, r[3] = {{area, 20}, {edge + 1, 5}, {area, 20}};
    struct iovec all = {area + 100, 100};
    check(get(other, l, 3, &all, 1, 0) == 20, "up to a vector without memory");
    check_fails(get(other, l + 1, 2, &all, 1, 0), EFAULT, "which is the first");
    check(get(other, &all, 1, r, 3, 0) == 20, "there");
    check_fails(get(other, &all, 1, r + 1, 2, 0), EFAULT, "the first there");
    r[1].iov_base = KERNEL;
    check(put(other, &all, 1, r, 3, 0) == 20, "up to the kernel's");
    r[1].iov_len = 0;
    check(get(other, &all, 1, r, 3, 0) == 40, "of which nothing is wanted");
}

static void many_vectors(void)
{
    static char copy[3 * MOST];
    struct iovec r = {area, 3 * MOST};
    need(get_one(copy, sizeof copy, area, sizeof copy) == sizeof copy, "a copy");
    for (int i = 0; i <= MOST; i++)
        many[i] = (struct iovec){area + 6 * i, 3};
    check(get(other, many, MOST, &r, 1, 0) == 3 * MOST && is(area + 6 * (MOST - 1), (char[]){copy[3 * MOST - 3], 0}),
          "1,024 vectors");
    check(put(other, &r, 1, many, MOST, 0) == 3 * MOST, "there");
    check_fails(get(other, many, MOST + 1, &r, 1, 0), EINVAL, "1,025");
    check_fails(get(other, &r, 1, many, MOST + 1, 0), EINVAL, "there");
    for (int i = 0; i < MOST; i++)
        many[i].iov_len = i % 2 ? 0 : 5;
    check(get(other, many, MOST, &r, 1, 0) == 5 * MOST / 2, "every other without bytes");
    many[7].iov_base = KERNEL;
    check_fails(get(other, many, MOST, &r, 1, 0), EFAULT, "one of them in the kernel");
    many[7] = (struct iovec){area, NEGATIVE};
    check_fails(get(other, &r, 1, many, MOST, 0), EINVAL, "one of them negative");
}

// Vectors count as they were when the call began, whatever it copies over them.
static void overlapping(void)
{
    static struct iovec l[8], decoys[8];
    static char first[16], last[8], decoy[8], twice[8];
    pid_t self = getpid();
    for (int count = 2; count <= 8; count += 6) { // few, which the kernel may keep elsewhere than many
        for (int i = 0; i < count; i++)
            l[i] = (struct iovec){first, 0}, decoys[i] = (struct iovec){decoy, 8};
        l[0] = (struct iovec){&l[count - 1], 16}, l[count - 1] = (struct iovec){last, 8};
        memset(decoy, 0, 8), memset(last, 0, 8);
        struct iovec r[2] = {{&decoys[1], 16}, {(void *)(uintptr_t)constant, 8}};
        check(get(self, l, (unsigned long)count, r, 2, 0) == 24 && is(last, "a consta") && decoy[0] == 0, "over local vectors, %d", count);
        l[0] = (struct iovec){&l[count - 1], 16}, l[count - 1] = (struct iovec){last, 8};
        memset(last, 0, 8);
        check(put(self, r, 2, l, (unsigned long)count, 0) == 24 && is(last, "a consta") && decoy[0] == 0, "over remote vectors, %d", count);
    }
    struct iovec same[2] = {{twice, 8}, {twice, 8}}, text = {(void *)(uintptr_t)constant, 10};
    check(get(self, same, 2, &text, 1, 0) == 10 && is(twice, "ntconsta"), "to one place twice: the last counts");
    text.iov_len = 4;
    struct iovec texts[2] = {text, text};
    check(get(self, same, 1, texts, 2, 0) == 8 && is(twice, "a coa co"), "from one place twice");
    check(get(self, same, 1, same, 1, 0) == 8 && is(twice, "a coa co"), "to where it is");
}

static void permission(void)
{
    struct iovec ten = {area, 10};
    next_step(1);
    if (geteuid() != 0)
        check_fails(get(other, &ten, 1, &ten, 1, 0), EPERM, "a process that is not dumpable");
    check_fails(get(other, &ten, 1, &ten, MOST + 1, 0), EINVAL, "with 1,025 vectors");
    board->step = 3;
    int64_t end = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;
    while (get(other, &ten, 1, &ten, 1, 0) == 10 || errno == EPERM)
        need(clock_ns(CLOCK_MONOTONIC) < end, "still waiting for its end");
    check_fails(get(other, &ten, 1, &ten, 1, 0), ESRCH, "a process that has ended, and was not waited for");
}

int main(void)
{
    int fd = open("board", O_RDWR | O_CREAT, 0600);
    need(fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0, "a file");
    board = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(board != MAP_FAILED, "a mapping of it");
    const char *rank = getenv("MARGAY_RANK");
    pid_t child = rank ? -1 : forked();
    if (child == 0 || (rank && atoi(rank) == 1))
        second();
    AWAIT(board->pid != 0);
    other = board->pid;
    here = pages_before_a_hole(1);
    order();
    processes();
    lengths();
    parts();
    many_vectors();
    overlapping();
    permission();
    if (child > 0)
        waitpid(child, NULL, 0);
    unlink("board");
    return check_done();
}
