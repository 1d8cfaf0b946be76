// What mmap refuses, with which errno, and that it then maps nothing; what it
// accepts although it looks odd.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static long map(unsigned long addr, unsigned long len, long prot, long flags, long fd, unsigned long offset)
{
    return syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

int main(void)
{
    int fd = open("f", O_CREAT | O_RDWR, 0600), write_only = open("f", O_WRONLY), ends[2];
    need(fd >= 0 && write_only >= 0 && pipe(ends) == 0, "files");
    check_fails(map(0, 0, RW, ANON, -1, 0), EINVAL, "a length of 0");
    check_fails(map(0, ~0ul, RW, ANON, -1, 0), ENOMEM, "a length of 2^64 - 1");
    check_fails(map(0, 1ul << 47, RW, ANON, -1, 0), ENOMEM, "128 TB");
    check_fails(map(0, 4096, RW, MAP_ANONYMOUS, -1, 0), EINVAL, "neither private nor shared");
    check_fails(map(0, 4096, RW, ANON, -1, 1), EINVAL, "an offset that is not aligned");
    check_fails(map(0, 4096, RW, MAP_PRIVATE, -1, 0), EBADF, "a file map of descriptor -1");
    check_fails(map(0, 4096, RW, MAP_PRIVATE, 99, 0), EBADF, "a closed descriptor");
    check_fails(map(0, 4096, PROT_READ, MAP_PRIVATE, write_only, 0), EACCES, "a write-only descriptor");
    int neither = open("f", O_ACCMODE);
    need(neither >= 0, "access mode 3");
    check_fails(map(0, 4096, PROT_READ, MAP_PRIVATE, neither, 0), EACCES, "a descriptor for neither reading nor writing");
    check_fails(map(0, 4096, PROT_WRITE, MAP_SHARED, neither, 0), EACCES, "nor may it be shared");
    check_fails(map(0, 4096, PROT_READ, MAP_PRIVATE, ends[0], 0), ENODEV, "a pipe");
    check_fails(map(0xffff800000000000, 4096, RW, ANON | MAP_FIXED, -1, 0), ENOMEM, "a kernel address");
    check_fails(map(0x1000000000000000, 4096, RW, ANON | MAP_FIXED, -1, 0), ENOMEM, "an address that is not canonical");
    check_fails(map(0x10001, 4096, RW, ANON | MAP_FIXED, -1, 0), EINVAL, "a fixed address that is not aligned");

    char *p = (char *)map(0, 1, RW, ANON, -1, 0);
    check((long)p != -1 && can_write(p + PAGE_BYTES - 1), "1 byte gives a page");
    check(munmap(p, 1) == 0 && !can_read(p), "and munmap of 1 byte takes it");
    p = (char *)map(12345, 4096, RW, ANON, -1, 0);
    check((long)p != -1 && (uintptr_t)p % PAGE_BYTES == 0, "a hint that is not aligned is rounded");
    p = (char *)map(0xffff800000000000, 4096, RW, ANON, -1, 0);
    check((long)p != -1 && can_write(p), "a hint in the kernel is passed over");
    p = (char *)map(0, 4096, PROT_WRITE, ANON, -1, 0);
    check((long)p != -1 && can_read(p) && can_write(p), "PROT_WRITE alone can be read on x86");
    p = (char *)map(0, 4096, RW, ANON | MAP_STACK | MAP_NORESERVE | MAP_POPULATE, -1, 0);
    check((long)p != -1 && can_write(p), "STACK, NORESERVE and POPULATE are accepted");
    p = (char *)map(0, 4096, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check((long)p != -1 && can_write(p) && p[100] == 0, "anonymous and shared");
    p = (char *)map(0, 4096, RW, ANON, 99, 0);
    check((long)p != -1, "an anonymous map does not look at the descriptor");
    return check_done();
}
