// A private mapping that is longer than its file: the rest of the last page is
// zero, whole pages behind it are SIGBUS, whatever access they get later.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, TAIL = 100, FILE_BYTES = PAGE_BYTES + TAIL };

static int faults(void (*how)(void *), char *at, int signo, int code)
{
    struct fault f = fault_of(how, at);
    return f.signo == signo && f.code == code && f.addr == (void *)at;
}

static void behind_the_end(int fd)
{
    char *p = mmap(NULL, 4 * PAGE_BYTES, RW, MAP_PRIVATE, fd, 0);
    need(p != MAP_FAILED, "mmap");
    check(p[FILE_BYTES - 1] == 'x', "the last byte is there");
    check(all_bytes(p + FILE_BYTES, 0, PAGE_BYTES - TAIL), "behind it the page is zero");
    memset(p + FILE_BYTES, 'y', PAGE_BYTES - TAIL);
    check(all_bytes(p + FILE_BYTES, 'y', PAGE_BYTES - TAIL), "and can be written");

    char *behind = p + 2 * PAGE_BYTES;
    check(faults(touch_read, behind, SIGBUS, BUS_ADRERR), "reading the next page is SIGBUS");
    check(faults(touch_write, behind + PAGE_BYTES, SIGBUS, BUS_ADRERR), "so is writing the one after");
    check_fails(pread(fd, behind, 1, 0), EFAULT, "a system call that writes there");
    check_fails(write(fd, behind, 1), EFAULT, "one that reads there");

    need(mprotect(behind, PAGE_BYTES, PROT_READ) == 0, "mprotect");
    check(faults(touch_read, behind, SIGBUS, BUS_ADRERR), "read-only: reading is SIGBUS");
    need(mprotect(behind, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
    check(faults(touch_read, behind, SIGSEGV, SEGV_ACCERR), "without access: SIGSEGV");
    need(mprotect(behind, PAGE_BYTES, RW) == 0, "mprotect");
    check(faults(touch_read, behind, SIGBUS, BUS_ADRERR), "access again: SIGBUS again");

    check(mmap(behind, PAGE_BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == behind,
          "anonymous memory over it, as a loader maps .bss");
    check(can_write(behind) && !can_read(behind + PAGE_BYTES), "which is memory, and only it");
    check(munmap(p, 4 * PAGE_BYTES) == 0, "unmapped");
}

static void odd_places(int fd)
{
    char *p = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, fd, 2 * PAGE_BYTES);
    check(p != MAP_FAILED && faults(touch_read, p, SIGBUS, BUS_ADRERR), "all of it behind the end");
    int empty = open("empty", O_CREAT | O_RDWR, 0600);
    char *q = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, empty, 0);
    check(q != MAP_FAILED && faults(touch_read, q, SIGBUS, BUS_ADRERR), "of an empty file");
    need(write(empty, "z", 1) == 1, "write");
    check(mmap(q, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED, empty, 0) == q && *q == 'z',
          "mapped again when there is a byte");
    int zero = open("/dev/zero", O_RDONLY);
    char *z = mmap(NULL, PAGE_BYTES, RW, MAP_PRIVATE, zero, 0);
    check(z != MAP_FAILED && all_bytes(z, 0, PAGE_BYTES) && can_write(z), "/dev/zero has no end");
    check_fails((long)mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, open("/", O_RDONLY), 0), ENODEV, "a directory");
    check_fails((long)mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, open("empty", O_PATH), 0), EBADF, "O_PATH");
    check_fails((long)mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, 999, 0), EBADF, "no descriptor");
    int made_up = open("/sys/devices/system/cpu/online", O_RDONLY);
    check_fails((long)mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, made_up, 0), ENODEV, "a file of /sys");
    unlink("empty");
}

int main(void)
{
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    char bytes[FILE_BYTES];
    memset(bytes, 'x', FILE_BYTES);
    need(fd >= 0 && write_all(fd, bytes, FILE_BYTES), "file");
    behind_the_end(fd);
    odd_places(fd);
    unlink("file");
    return check_done();
}
