// Parts of a mapped file mapped again in place, as ld.so does with a library:
// with another access, another offset, another file, after writes to the
// mapping, after a change of the file.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGES = 8, RW = PROT_READ | PROT_WRITE };

static char *page(char *base, int n) { return base + (size_t)n * PAGE_BYTES; }

struct file {
    int fd;
    char bytes[PAGES * PAGE_BYTES]; // what it begins with
};

static void take(struct file *file, int fd)
{
    file->fd = fd;
    need(fd >= 0 && pread(fd, file->bytes, sizeof file->bytes, 0) == sizeof file->bytes, "file");
}

static int fresh(const char *name, char first)
{
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    char bytes[PAGE_BYTES];
    for (int i = 0; i < PAGES; i++) {
        memset(bytes, first + i, PAGE_BYTES);
        need(write_all(fd, bytes, PAGE_BYTES), "write");
    }
    return fd;
}

static int over(char *base, int at, int pages, int prot, const struct file *file, int file_page)
{
    return mmap(page(base, at), (size_t)pages * PAGE_BYTES, prot, MAP_PRIVATE | MAP_FIXED, file->fd,
                (off_t)file_page * PAGE_BYTES) == page(base, at);
}

static int shows(char *base, int at, int pages, const struct file *file, int file_page)
{
    const char *want = file->bytes + (size_t)file_page * PAGE_BYTES;
    return memcmp(page(base, at), want, (size_t)pages * PAGE_BYTES) == 0;
}

static void overlays(const struct file *a, const struct file *b)
{
    char *p = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE, a->fd, 0);
    need(p != MAP_FAILED, "mmap");
    check(over(p, 1, 3, PROT_READ | PROT_EXEC, a, 1) && shows(p, 0, PAGES, a, 0), "the same part, executable");
    check(!can_write(page(p, 1)), "not writable");
    check(over(p, 4, 2, RW, a, 4) && shows(p, 0, PAGES, a, 0), "the same part, writable");
    memset(page(p, 4), '#', PAGE_BYTES);
    check(shows(p, 0, 4, a, 0) && shows(p, 5, 3, a, 5), "a write stays where it is");
    check(over(p, 4, 2, PROT_READ, a, 4) && shows(p, 0, PAGES, a, 0), "mapped again, what was written is gone");

    check(over(p, 6, 1, RW, a, 2) && shows(p, 6, 1, a, 2) && shows(p, 7, 1, a, 7), "another part of the file");
    check(over(p, 6, 2, PROT_READ, a, 6) && shows(p, 0, PAGES, a, 0), "over that and its neighbour, as at first");
    check(over(p, 2, 1, PROT_READ, b, 2) && shows(p, 2, 1, b, 2) && shows(p, 3, 1, a, 3), "another file, same offset");
    check(over(p, 2, 1, PROT_READ, a, 2) && shows(p, 0, PAGES, a, 0), "and back");

    need(mprotect(page(p, 3), PAGE_BYTES, RW) == 0, "mprotect");
    memset(page(p, 3), '#', PAGE_BYTES);
    need(mprotect(page(p, 3), PAGE_BYTES, PROT_READ) == 0, "mprotect");
    check(over(p, 0, PAGES, PROT_READ, a, 0) && shows(p, 0, PAGES, a, 0), "after one page was writable for a while");
    need(munmap(p, PAGES * PAGE_BYTES) == 0, "munmap");
}

static void changes(struct file *file)
{
    char *p = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE, file->fd, 0);
    need(p != MAP_FAILED && pwrite(file->fd, "!", 1, 0) == 1, "pwrite");
    check(over(p, 0, PAGES, PROT_READ, file, 0) && *p == '!', "mapped again after a change, which is seen");
    need(pwrite(file->fd, "?", 1, 0) == 1, "pwrite");
    check(over(p, 0, 1, PROT_READ | PROT_EXEC, file, 0) && *p == '?', "and the next");
}

int main(void)
{
    static struct file old, young, other;
    take(&old, open("/proc/self/exe", O_RDONLY));
    take(&young, fresh("young", 'a'));
    take(&other, fresh("other", 'A'));
    overlays(&old, &young);
    overlays(&young, &other);
    changes(&young);
    unlink("young");
    unlink("other");
    return check_done();
}
