// Shared mappings of less usual kinds: made longer by mremap, where they are and elsewhere; with other pages of their file, by
// remap_file_pages; of /dev/zero; of memfds that are sealed.
//
// Regression: mremap was ENOMEM, remap_file_pages ENOSYS, /dev/zero ENODEV, and a sealed memfd could be written to.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { P = PAGE_BYTES, RW = PROT_READ | PROT_WRITE };

// A file of so many pages, of which each begins with its number.
static int numbered(const char *name, int pages)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, pages * P) == 0, "a file");
    for (char i = 0; i < pages; i++)
        need(pwrite(fd, &i, 1, i * P) == 1, "a page");
    return fd;
}

static void longer(void)
{
    int fd = numbered("longer", 8);
    char *area = mmap(NULL, 16 * P, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte = 0;
    char *p = mmap(area, 2 * P, RW, MAP_SHARED | MAP_FIXED, fd, P);
    need(p == area && munmap(area + 2 * P, 4 * P) == 0, "a mapping with room behind");
    p[1] = 'a';
    check(mremap(p, 2 * P, 4 * P, 0) == p && p[3 * P] == 4, "in place it shows what follows in the file");
    p[3 * P + 1] = 'b';
    check_fails((long)mremap(p, 4 * P, 8 * P, 0), ENOMEM, "without room");
    char *q = mremap(p, 4 * P, 8 * P, MREMAP_MAYMOVE);
    check(q != MAP_FAILED && q[1] == 'a' && q[3 * P + 1] == 'b' && q[6 * P] == 7, "elsewhere it shows all of it");
    check(!can_read(p), "and not where it was");
    check(!can_read(q + 7 * P), "behind the file's end there is nothing");
    need(ftruncate(fd, 16 * P) == 0, "a longer file");
    check(can_write(q + 7 * P), "until it is longer");
    q[2] = 'c';
    check(msync(q, 8 * P, MS_SYNC) == 0 && pread(fd, &byte, 1, P + 2) == 1 && byte == 'c', "what is stored is in the file");
    check(mremap(q, 8 * P, 12 * P, MREMAP_MAYMOVE | MREMAP_FIXED, area) == area && area[2] == 'c', "where it is wanted");
    munmap(area, 16 * P);
    p = mmap(NULL, 2 * P, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED, "memory");
    p[P] = 'd';
    q = mremap(p, 2 * P, 64 * P, MREMAP_MAYMOVE);
    check(q != MAP_FAILED && q[P] == 'd', "memory without a file");
    int child = forked();
    if (child == 0) {
        q[P] = 'e';
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == child && q[P] == 'e', "is still a child's, too");
}

static void other_pages(void)
{
    int fd = numbered("pages", 8);
    char *p = mmap(NULL, 4 * P, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "a mapping");
    p[2 * P + 1] = 'x';
    check(remap_file_pages(p, P, 0, 5, 0) == 0 && p[0] == 5 && p[P] == 1, "another page of the file");
    check(remap_file_pages(p + P, 2 * P, 0, 2, 0) == 0 && p[P] == 2 && p[P + 1] == 'x' && p[2 * P] == 3, "two of them");
    check(remap_file_pages(p, P, 0, 0, 0) == 0 && p[0] == 0, "and back");
    p[P + 2] = 'y';
    char bytes[2];
    check(msync(p, 4 * P, MS_SYNC) == 0 && pread(fd, bytes, 2, 2 * P + 1) == 2 && memcmp(bytes, "xy", 2) == 0,
          "what is stored is in the page that was shown");
    check_fails(remap_file_pages(p, P, PROT_READ, 0, 0), EINVAL, "access is not changed");
    check_fails(remap_file_pages(p, 0, 0, 0, 0), EINVAL, "nothing");
    check_fails(remap_file_pages(p, P, 0, -1, 0), EINVAL, "no page has such a number");
    need(mprotect(p + P, P, PROT_READ) == 0, "mprotect");
    check_fails(remap_file_pages(p, 2 * P, 0, 4, 0), EINVAL, "pages of which some may be written to");
    int other = numbered("others", 8);
    need(mmap(p + P, P, RW, MAP_SHARED | MAP_FIXED, other, 0) == p + P, "another file");
    check_fails(remap_file_pages(p, 2 * P, 0, 4, 0), EINVAL, "pages of two files");
    need(munmap(p + P, P) == 0, "munmap");
    check_fails(remap_file_pages(p, 4 * P, 0, 4, 0), EINVAL, "with a hole");
    check(p[0] == 0 && p[2 * P] == 3 && p[3 * P] == 3, "all is as it was");
    char *mine = mmap(NULL, P, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_fails(remap_file_pages(mine, P, 0, 0, 0), EINVAL, "memory of its own");
}

static void zeros(void)
{
    int fd = open("/dev/zero", O_RDWR), read_only = open("/dev/zero", O_RDONLY);
    char *p = mmap(NULL, 2 * P, RW, MAP_SHARED, fd, 0), *q = mmap(NULL, P, PROT_READ, MAP_SHARED, read_only, 0);
    check(p != MAP_FAILED && q != MAP_FAILED && p[0] == 0 && q[0] == 0, "zeros are shared");
    int child = forked();
    if (child == 0) {
        p[P] = 1;
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == child && p[P] == 1, "with children");
    check(*(char *)mmap(NULL, P, RW, MAP_SHARED, fd, 0) == 0, "and not with other mappings");
    check_fails(mprotect(q, P, RW), EACCES, "of a descriptor to read from");
    check_fails((long)mmap(NULL, P, RW, MAP_SHARED, read_only, 0), EACCES, "which is not written to");
}

static void sealed(int seal, const char *what)
{
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    need(fd >= 0 && ftruncate(fd, P) == 0 && fcntl(fd, F_ADD_SEALS, seal) == 0, "a sealed file");
    check_fails((long)mmap(NULL, P, RW, MAP_SHARED, fd, 0), EPERM, what);
    check_fails((long)mmap(NULL, P, PROT_WRITE, MAP_SHARED, fd, 0), EPERM, "to be written to only");
    char *p = mmap(NULL, P, RW, MAP_PRIVATE, fd, 0);
    check(p != MAP_FAILED && can_write(p), "a copy may be written to");
    p = mmap(NULL, P, PROT_READ, MAP_SHARED, fd, 0);
    check(p != MAP_FAILED && can_read(p), "it may be read");
    check_fails(mprotect(p, P, RW), EACCES, "and not be made writable");
    munmap(p, P);
}

// What may be stored to already is not sealed against it.
static void in_use(void)
{
    int fd = memfd_create("in use", MFD_ALLOW_SEALING);
    need(fd >= 0 && ftruncate(fd, P) == 0, "a file");
    char *p = mmap(NULL, P, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "a mapping");
    check_fails(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "in use");
    check(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 && can_read(p), "later ones are refused");
    check(munmap(p, P) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0, "not in use any more");
}

int main(void)
{
    longer();
    other_pages();
    zeros();
    sealed(F_SEAL_WRITE, "sealed against writing");
    in_use();
    sealed(F_SEAL_FUTURE_WRITE, "sealed against writing later");
    return check_done();
}
