// What is stored in a shared mapping is in its file, whatever has become of the right to write to that. It was written back later, which
// seals and limits refused.
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

static int has(int fd, char byte, off_t at)
{
    char found;
    return pread(fd, &found, 1, at) == 1 && found == byte;
}

int main(void)
{
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    char *p = map(fd);
    need(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0, "F_ADD_SEALS");
    p[0] = 'a';
    check(msync(p, BYTES, MS_SYNC) == 0, "msync of a file that was sealed");
    check(munmap(p, BYTES) == 0 && has(fd, 'a', 0), "stored");

    fd = open("limited", O_CREAT | O_RDWR, 0600);
    p = map(fd);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = PAGE_BYTES;
    need(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    p[0] = p[2 * PAGE_BYTES] = 'b';
    check(munmap(p, BYTES) == 0 && has(fd, 'b', 0) && has(fd, 'b', 2 * PAGE_BYTES), "beyond the limit on file sizes, too");
    return check_done();
}
