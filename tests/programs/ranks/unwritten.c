// What is stored in a shared mapping does not reach its file: the program is
// told by msync, and its user of what it unmaps or leaves. On a node only: on
// Linux memory and file are one.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { RW = PROT_READ | PROT_WRITE, BYTES = 4 * PAGE_BYTES };

static char *map(int fd)
{
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, "a file");
    char *p = mmap(NULL, BYTES, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

int main(void)
{
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    char *p = map(fd);
    need(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0, "F_ADD_SEALS");
    p[0] = 1;
    check_fails(msync(p, BYTES, MS_SYNC), EPERM, "msync of a file that was sealed");
    check(munmap(p, BYTES) == 0, "munmap says nothing");

    p = map(open("unmapped", O_CREAT | O_RDWR, 0600));
    char *left = map(open("left", O_CREAT | O_RDWR, 0600));
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = PAGE_BYTES;
    need(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    for (int i = 0; i < BYTES; i += 2 * PAGE_BYTES)
        p[i] = left[i] = 1;
    check(munmap(p, BYTES) == 0, "beyond the limit on file sizes, too");
    return check_done();
}
