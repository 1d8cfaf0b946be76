// Text that ranks share: a file that both map privately and do not write to. Rank 1 tries to write there in every way that it has,
// and rank 0's stays what the file has.
#include "windows.h"

#include "../common/settle.h"
#include <linux/futex.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { FILE_PAGES = 2048, FILE_BYTES = FILE_PAGES * PAGE_BYTES, SHARED_PAGE = 90, WRITTEN_PAGE = 120 };

static char *_Atomic text;
static pid_t pid;
static int step_now;

static char byte_of(int page) { return (char)('a' + page % 23); }

// Whether all of it holds what the file held when it was mapped, but for the start of two pages, which is changed in the file.
static int is_as_it_was(const char *at)
{
    for (int page = 0; page < FILE_PAGES; page++, at += PAGE_BYTES)
        if (at[4095] != byte_of(page) || (at[0] != byte_of(page) && page != SHARED_PAGE && page != WRITTEN_PAGE))
            return 0;
    return 1;
}

static void make_file(void)
{
    int fd = open("library", O_CREAT | O_TRUNC | O_WRONLY, 0700);
    need(fd >= 0, "a file");
    for (int page = 0; page < FILE_PAGES; page++) {
        char bytes[PAGE_BYTES];
        memset(bytes, byte_of(page), sizeof bytes);
        need(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
    }
    close(fd);
    settle("library");
}

static char *map(int prot, char *at, size_t bytes, off_t offset)
{
    int fd = open("library", O_RDONLY);
    need(fd >= 0, "the file");
    char *p = mmap(at, bytes, prot, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, offset);
    need(p != MAP_FAILED, "mmap");
    close(fd);
    return p;
}

// Both ranks come to the next step.
static void next(void) { meet(++step_now); }

// Rank 1 has done something to its text.
static void look(const char *what)
{
    next();
    if (own_rank == 0)
        check(is_as_it_was(text), "%s", what);
    next();
}

// What is refused, as it would be with any memory that cannot be written.
static void refused(char *own, char *there)
{
    check_faults(store_byte, own, SEGV_ACCERR, "a store");
    check_faults(store_byte, there, SEGV_ACCERR, "a store through the window");
    int fd = open("library", O_RDONLY);
    check_fails(pread(fd, own, 100, 0), EFAULT, "read to it");
    check_fails(pread(fd, there, 100, 0), EFAULT, "read to the other's");
    close(fd);
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, own), EFAULT, "clock_gettime");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, there), EFAULT, "clock_gettime through the window");
    check_fails(syscall(SYS_futex, own, FUTEX_WAKE_OP, 1, NULL, own, FUTEX_OP(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 0)), EFAULT,
                "FUTEX_WAKE_OP");
    char bytes[64] = "not yours";
    struct iovec from = {bytes, sizeof bytes};
    struct iovec to = {own, sizeof bytes};
    check_fails(process_vm_writev(getpid(), &from, 1, &to, 1, 0), EFAULT, "process_vm_writev to itself");
    to.iov_base = *OF(0, &text);
    check_fails(process_vm_writev(*OF(0, &pid), &from, 1, &to, 1, 0), EFAULT, "process_vm_writev to the other");
}

static void write_memory_file(char *own)
{
    int fd = open("/proc/self/mem", O_RDWR);
    if (fd >= 0 && pwrite(fd, "x", 1, (off_t)(uintptr_t)own) == 1)
        check(*own == 'x', "what it wrote is there");
    close(fd);
}

static void in_a_child(char *own)
{
    pid_t child = forked();
    if (child == 0) {
        int done = mprotect(own, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0;
        for (int page = 0; page < 20; page++)
            done &= own[page * PAGE_BYTES] == byte_of(80 + page);
        strcpy(own, "the child's");
        _exit(!done);
    }
    int status = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "a child writes to its copy");
    check(own[0] == byte_of(80), "its parent has its own");
}

static void write_shared(const char *own)
{
    int fd = open("library", O_RDWR);
    char *p = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "a shared mapping");
    p[SHARED_PAGE * PAGE_BYTES] = 'S';
    check(msync(p, FILE_BYTES, MS_SYNC) == 0, "msync");
    char *now = map(PROT_READ, NULL, FILE_BYTES, 0);
    check(now[SHARED_PAGE * PAGE_BYTES] == 'S' && now[(SHARED_PAGE + 1) * PAGE_BYTES] == byte_of(SHARED_PAGE + 1) &&
              own[SHARED_PAGE * PAGE_BYTES] == 'S',
          "that is seen in mappings new and old");
    munmap(now, FILE_BYTES);
    munmap(p, FILE_BYTES);
    close(fd);
}

static void write_file(const char *own)
{
    int fd = open("library", O_WRONLY);
    check(pwrite(fd, "new", 3, WRITTEN_PAGE * PAGE_BYTES) == 3, "the file is changed");
    char *now = map(PROT_READ, NULL, FILE_BYTES, 0);
    const char *pages[] = {now, own};
    for (int i = 0; i < 2; i++)
        check(memcmp(pages[i] + WRITTEN_PAGE * PAGE_BYTES, "new", 3) == 0, "that is seen, too");
    munmap(now, FILE_BYTES);
    close(fd);
}

// A descriptor is an int, whatever else is in its register. With that bit it was taken for the program's own file.
static void map_by_long_number(void)
{
    enum { BYTES = 16 * PAGE_BYTES };
    int fd = open("library", O_RDONLY);
    need(dup2(fd, 0) == 0, "dup2");
    char *p = (char *)syscall(SYS_mmap, NULL, BYTES, PROT_READ, MAP_PRIVATE, 1L << 32, 0);
    check(p != MAP_FAILED && p[0] == byte_of(0) && p[BYTES - 1] == byte_of(15), "descriptor 0 and bit 32");
    munmap(p, BYTES);
    close(fd);
}

static void rank_1(char *own)
{
    char *there = OF(0, *OF(0, &text));
    map_by_long_number();
    refused(own + 10 * PAGE_BYTES, there + 10 * PAGE_BYTES);
    look("what is refused changes nothing");
    check(mprotect(own + 20 * PAGE_BYTES, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
    check(own[20 * PAGE_BYTES] == byte_of(20), "what can be written now holds what it held");
    memset(own + 20 * PAGE_BYTES, 'P', 2 * PAGE_BYTES);
    check(own[19 * PAGE_BYTES] == byte_of(19) && own[22 * PAGE_BYTES] == byte_of(22), "its neighbours, too");
    check_faults(store_byte, own + 22 * PAGE_BYTES, SEGV_ACCERR, "which cannot be written");
    look("mprotect and stores");
    map(PROT_READ | PROT_WRITE, own + 30 * PAGE_BYTES, 20 * PAGE_BYTES, 30 * PAGE_BYTES)[0] = 'F';
    check(own[49 * PAGE_BYTES] == byte_of(49), "mapped again, to be written");
    look("the same mapped over it and stored to");
    char *to = pages(1, PROT_NONE);
    char *moved = mremap(own + 60 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    check(moved != MAP_FAILED && moved[0] == byte_of(60), "moved by mremap");
    check(mprotect(moved, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "and to be written");
    moved[0] = 'M';
    look("a page that mremap has moved");
    write_memory_file(own + 70 * PAGE_BYTES);
    look("/proc/self/mem");
    in_a_child(own + 80 * PAGE_BYTES);
    look("a child");
    check(madvise(own, 10 * PAGE_BYTES, MADV_DONTNEED) == 0 && own[0] == byte_of(0), "MADV_DONTNEED");
    look("MADV_DONTNEED");
    write_shared(own);
    look("a shared mapping of the file");
    write_file(own);
    look("a file that has changed");
    munmap(own, FILE_BYTES);
    look("unmapped by one of two");
}

static void rank_0(void)
{
    char *there = OF(1, *OF(1, &text));
    look("what is refused changes nothing");
    next();
    check(is_as_it_was(text), "mprotect and stores");
    check(there[20 * PAGE_BYTES] == 'P' && there[22 * PAGE_BYTES] == byte_of(22), "the window shows what the other has");
    next();
    for (int i = 0; i < 8; i++)
        look("what the other does to its own");
    check(text[SHARED_PAGE * PAGE_BYTES] == 'S' && memcmp(text + WRITTEN_PAGE * PAGE_BYTES, "new", 3) == 0,
          "what was stored in the file is seen");
}

int main(void)
{
    begin_ranks();
    pid = getpid();
    if (own_rank == 0)
        make_file();
    next();
    text = map(PROT_READ | PROT_EXEC, NULL, FILE_BYTES, 0);
    check(is_as_it_was(text), "the file is there");
    next();
    check(is_as_it_was(OF(!own_rank, *OF(!own_rank, &text))), "through the window, too");
    next();
    if (own_rank == 1)
        rank_1(text);
    else
        rank_0();
    return end_ranks();
}
