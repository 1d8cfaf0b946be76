// File calls given addresses that cannot be used: EFAULT, no signal, and
// nothing of the file lost. Read-only memory as a target, PROT_NONE, holes.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

int main(void)
{
    struct stat st;
    char c;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && write(fd, "0123456789", 10) == 10, "file");
    char *p = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED && munmap(p + PAGE_BYTES, PAGE_BYTES) == 0, "mmap");
    need(mprotect(p + 2 * PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
    char *const places[] = {NULL, (char *)8, p + PAGE_BYTES, p + 2 * PAGE_BYTES, (char *)0x7ffffffff000,
                            (char *)0xffff800000000000, (char *)0xfffffffffffff000, (char *)0x8000000000000000};
    static const char *const names[] = {"NULL", "8", "a hole", "PROT_NONE", "the end of user space",
                                        "the kernel's half", "the last page", "a non-canonical address"};

    for (int i = 0; i < 8; i++) {
        char *bad = places[i];
        printf("  -- %s\n", names[i]);
        lseek(fd, 0, SEEK_SET);
        check_fails(read(fd, bad, 4), EFAULT, "read");
        check_fails(write(fd, bad, 4), EFAULT, "write");
        check_fails(pread(fd, bad, 4, 0), EFAULT, "pread");
        check_fails(open(bad, O_RDONLY), EFAULT, "open");
        check_fails(stat(bad, &st), EFAULT, "stat, its path");
        check_fails(stat("f", (struct stat *)bad), EFAULT, "stat, its result");
        check_fails(readlink("f", bad, 0), EINVAL, "readlink of 0 bytes looks at that first");
        check_fails(access(bad, F_OK), EFAULT, "access");
        check_fails(pipe((int *)bad), EFAULT, "pipe");
        struct iovec v = {bad, 4};
        check_fails(writev(fd, &v, 1), EFAULT, "writev, its piece");
        check_fails(writev(fd, (struct iovec *)bad, 1), EFAULT, "writev, its list");
        check(lseek(fd, 0, SEEK_CUR) == 0, "the offset did not move");
    }

    check(pread(fd, &c, 1, 9) == 1 && c == '9' && fstat(fd, &st) == 0 && st.st_size == 10, "the file is unharmed");
    check(mprotect(p, PAGE_BYTES, PROT_READ) == 0, "a page made read-only");
    check_fails(pread(fd, p, 4, 0), EFAULT, "read into it");
    check(pwrite(fd, p, 4, 0) == 4, "write from it");
    check(read(fd, NULL, 0) == 0, "0 bytes into NULL");
    memcpy(&c, "x", 1);
    check_fails(read(99, NULL, 4), EBADF, "the descriptor is looked at before the pointer");
    check(open("next", O_CREAT | O_RDWR, 0600) == 4, "no descriptor leaked");
    return check_done();
}
