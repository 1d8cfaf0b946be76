// Pages that are the kernel's, in a program's memory: the clock page and what
// lies below the lowest address.
//
// Regressions: munmap of a range that begins below that ended the job; the
// clock page could be written to or zeroed, for every rank; once it was
// unmapped, the kernel panicked at the next call that was shipped.
#include "../common/check.h"
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

static char *clock_page;
static size_t clock_bytes;

// It lies below the vDSO, which maps shows everywhere.
static void find_clock_page(void)
{
    unsigned long start, end;
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    need(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "[vvar]") != NULL && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            clock_page = (char *)start;
            clock_bytes = end - start;
        }
        if (strstr(line, "[vdso]") != NULL && clock_page == NULL && sscanf(line, "%lx", &start) == 1) {
            clock_page = (char *)start - PAGE_BYTES;
            clock_bytes = PAGE_BYTES;
        }
    }
    fclose(maps);
    need(clock_page != NULL && can_read(clock_page), "the clock page");
}

static int is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
}

// What the vDSO says lies between what two calls say.
static int clock_is_right(void)
{
    struct timespec before, now, after;
    need(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &before) == 0, "clock_gettime");
    need(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
    need(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &after) == 0, "clock_gettime");
    return is_before(before, now) && is_before(now, after);
}

static void below_the_lowest(void)
{
    check(munmap(NULL, 2 * PAGE_BYTES) == 0, "munmap of page 0");
    check(munmap((void *)PAGE_BYTES, 32 * PAGE_BYTES) == 0, "munmap of what begins below the lowest address");
    check_fails(munmap(NULL, 0), EINVAL, "munmap of nothing");
    check_fails(mprotect(NULL, PAGE_BYTES, PROT_READ), ENOMEM, "mprotect of page 0");
    check_fails(madvise(NULL, PAGE_BYTES, MADV_DONTNEED), ENOMEM, "madvise of page 0");
    check_fails((long)mremap(NULL, PAGE_BYTES, 2 * PAGE_BYTES, MREMAP_MAYMOVE), EFAULT, "mremap of page 0");
    unsigned char page;
    check_fails(msync(NULL, PAGE_BYTES, MS_SYNC), ENOMEM, "msync of page 0");
    check_fails(mincore(NULL, PAGE_BYTES, &page), ENOMEM, "mincore of page 0");
    check_fails(mlock(NULL, PAGE_BYTES), ENOMEM, "mlock of page 0");
    check_fails(syscall(SYS_mbind, NULL, PAGE_BYTES, MPOL_DEFAULT, NULL, 0, 0), EFAULT, "mbind of page 0");
}

static void changing_the_clock(void)
{
    int zeros = open("/dev/zero", O_RDONLY);
    struct iovec local = {&zeros, sizeof zeros}, remote = {clock_page, sizeof zeros};
    check(clock_is_right(), "the clock is right");
    check_fails(mprotect(clock_page, PAGE_BYTES, PROT_READ | PROT_WRITE), EACCES, "write access to it");
    check(!can_write(clock_page), "a store");
    check(madvise(clock_page, PAGE_BYTES, MADV_DONTNEED) != 0, "its contents are not discarded");
    check_fails(read(zeros, clock_page, 64), EFAULT, "a read into it");
    check_fails(syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0), EFAULT, "process_vm_writev into it");
    check_fails(syscall(SYS_uname, clock_page), EFAULT, "a call's result into it");
    check(clock_is_right(), "it is right still");
    close(zeros);
}

static void without_the_clock(void)
{
    struct timespec now;
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    check(munmap(clock_page, clock_bytes) == 0 && !can_read(clock_page), "munmap of the clock page");
    check(getppid() > 0 && open("/nowhere/at/all", O_RDONLY) == -1, "calls go on");
    check(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0 && now.tv_sec + now.tv_nsec > 0, "also that for the time");
    char *at = mmap(clock_page, PAGE_BYTES, PROT_READ | PROT_WRITE, how, -1, 0);
    check(at == clock_page && all_bytes(at, 0, PAGE_BYTES), "memory of the program's own in its place");
    memset(at, 7, PAGE_BYTES);
    check(getppid() > 0 && all_bytes(at, 7, PAGE_BYTES), "which keeps what it holds");
    check(madvise(at, PAGE_BYTES, MADV_DONTNEED) == 0 && all_bytes(at, 0, PAGE_BYTES), "until that is discarded");
    for (int i = 0; i < 64; i++) {
        char *more = mmap(NULL, 64 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(more != MAP_FAILED && all_bytes(more, 0, 64 * PAGE_BYTES), "zeros");
        memset(more, 1, 64 * PAGE_BYTES);
        need(munmap(more, 64 * PAGE_BYTES) == 0, "munmap");
    }
    check(munmap(at, PAGE_BYTES) == 0, "and it is gone again");
}

int main(void)
{
    find_clock_page();
    below_the_lowest();
    changing_the_clock();
    // Twice by exec: a new program has its clock page again.
    char round = getenv("ROUND") == NULL ? '1' : getenv("ROUND")[0];
    without_the_clock();
    if (check_failures == 0 && round == '1') {
        char next[] = "ROUND=2", *environment[] = {next, NULL}, *arguments[] = {"kernels_pages", NULL};
        execve("/proc/self/exe", arguments, environment);
        need(0, "execve");
    }
    return check_done();
}
