// Code brought in by system calls: read, pread and readv into memory that is or
// was executable must run as the new code at once, also after it ran before.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { RWX = PROT_READ | PROT_WRITE | PROT_EXEC, CODE_BYTES = 6, VERSIONS = 300 };

static int call(const char *at) { return ((int (*)(void))(uintptr_t)at)(); }

int main(void)
{
    int fd = open("code", O_CREAT | O_RDWR, 0600), ends[2];
    need(fd >= 0 && pipe(ends) == 0, "open");
    for (int i = 0; i < VERSIONS; i++) {
        char code[CODE_BYTES] = {(char)0xb8, 0, 0, 0, 0, (char)0xc3}; // mov $i, %eax; ret
        memcpy(code + 1, &i, 4);
        need(write(fd, code, CODE_BYTES) == CODE_BYTES, "write");
    }
    char *p = mmap(NULL, 2 * PAGE_BYTES, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED, "mmap");
    lseek(fd, 0, SEEK_SET);
    int right = 0;
    for (int i = 0; i < VERSIONS; i++) {
        need(read(fd, p, CODE_BYTES) == CODE_BYTES, "read");
        right += call(p) == i;
    }
    check(right == VERSIONS, "300 functions read to the same executable place");

    right = 0;
    for (int i = 0; i < VERSIONS; i++) {
        need(mprotect(p, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
        need(pread(fd, p, CODE_BYTES, (off_t)(i * 7 % VERSIONS) * CODE_BYTES) == CODE_BYTES, "pread");
        need(mprotect(p, PAGE_BYTES, PROT_READ | PROT_EXEC) == 0, "mprotect");
        right += call(p) == i * 7 % VERSIONS;
    }
    check(right == VERSIONS, "300 times read while writable, then made executable");

    need(mprotect(p, 2 * PAGE_BYTES, RWX) == 0, "mprotect");
    right = 0;
    for (int i = 0; i < VERSIONS; i++) {
        // One half of the function on each side of a page border.
        char *at = p + PAGE_BYTES - 3;
        struct iovec v[2] = {{at, 3}, {at + 3, 3}};
        need(preadv(fd, v, 2, (off_t)i * CODE_BYTES) == CODE_BYTES, "preadv");
        right += call(at) == i;
        need(write(ends[1], p, 1) == 1 && pread(fd, p, CODE_BYTES, 0) == CODE_BYTES, "neighbour");
        need(read(ends[0], p + 100, 1) == 1, "pipe");
    }
    check(right == VERSIONS, "300 times in two pieces over a page border");
    unlink("code");
    return check_done();
}
