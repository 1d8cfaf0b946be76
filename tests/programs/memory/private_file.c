// Private maps of files: contents, offsets, the zero tail of the last page,
// copy on write that never reaches the file, and life after close.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, FILE_BYTES = 10 * PAGE_BYTES + 1000 };

int main(void)
{
    static char content[FILE_BYTES], back[FILE_BYTES];
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    seq_fill(content, 0, FILE_BYTES / 8);
    need(fd >= 0 && write_all(fd, content, FILE_BYTES), "file");

    char *r = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    check(r != MAP_FAILED && memcmp(r, content, FILE_BYTES) == 0, "the file's contents");
    check(all_bytes(r + FILE_BYTES, 0, PAGE_BYTES - 1000), "zeros to the end of the last page");
    check(!can_write(r), "not writable");
    char *m = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_PRIVATE, fd, 3 * PAGE_BYTES);
    check(m != MAP_FAILED && memcmp(m, content + 3 * PAGE_BYTES, 2 * PAGE_BYTES) == 0, "from an offset");

    char *w = mmap(NULL, FILE_BYTES, RW, MAP_PRIVATE, fd, 0);
    need(w != MAP_FAILED, "mmap");
    memset(w, 'x', FILE_BYTES);
    check(pread(fd, back, FILE_BYTES, 0) == FILE_BYTES && memcmp(back, content, FILE_BYTES) == 0,
          "writing a private map leaves the file alone");
    check(memcmp(r, content, FILE_BYTES) == 0, "and other maps of it");
    check(all_bytes(w, 'x', FILE_BYTES), "and is kept");

    char *over = mmap(r + 4 * PAGE_BYTES, PAGE_BYTES, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
    check(over == r + 4 * PAGE_BYTES && memcmp(over, content, PAGE_BYTES) == 0, "a file map over a part of another");
    check(memcmp(r + 5 * PAGE_BYTES, content + 5 * PAGE_BYTES, PAGE_BYTES) == 0, "the rest is kept");
    check(mmap(r + 6 * PAGE_BYTES, PAGE_BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == r + 6 * PAGE_BYTES &&
              all_bytes(r + 6 * PAGE_BYTES, 0, PAGE_BYTES), "anonymous memory over a part of it");
    check(close(fd) == 0 && unlink("f") == 0, "the file closed and removed");
    check(memcmp(m, content + 3 * PAGE_BYTES, 2 * PAGE_BYTES) == 0, "the maps live on");
    check(munmap(r, FILE_BYTES) == 0 && munmap(m, 2 * PAGE_BYTES) == 0 && munmap(w, FILE_BYTES) == 0, "unmapped");
    return check_done();
}
