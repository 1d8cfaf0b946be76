// A file that is mapped twice to be read and executed, as libraries are: what
// is then done to one mapping, or to the file, leaves the other as it was.
#include "../common/settle.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 700, BYTES = PAGES * PAGE_BYTES, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };

static char byte_of(char first, int page) { return (char)(first + page % 23); }

static void make(const char *name, char first)
{
    char bytes[PAGE_BYTES];
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    for (int page = 0; page < PAGES; page++) {
        memset(bytes, byte_of(first, page), sizeof bytes);
        need(write_all(fd, bytes, sizeof bytes), "write");
    }
    close(fd);
}

static char *map(const char *name)
{
    int fd = open(name, O_RDONLY);
    char *p = mmap(NULL, BYTES, RX, MAP_PRIVATE, fd, 0);
    need(fd >= 0 && p != MAP_FAILED, "mmap");
    close(fd);
    return p;
}

static char *page(char *base, int number) { return base + (size_t)number * PAGE_BYTES; }

static int holds(char *base, int from, int to, char first)
{
    for (int i = from; i < to; i++)
        if (!all_bytes(page(base, i), byte_of(first, i), PAGE_BYTES))
            return 0;
    return 1;
}

static int is_whole(char *base) { return holds(base, 0, PAGES, 'a'); }

static void written(char *p, char *other)
{
    check(!can_write(p) && !can_write(page(p, PAGES - 1)), "it cannot be written to");
    int fd = open("f", O_RDONLY);
    check_fails(pread(fd, p, 100, 0), EFAULT, "pread to it");
    close(fd);
    check(mprotect(page(p, 10), 2 * PAGE_BYTES, RW) == 0 && holds(p, 10, 12, 'a'), "made writable it holds the same");
    memset(page(p, 10), '#', 2 * PAGE_BYTES);
    check(holds(p, 0, 10, 'a') && holds(p, 12, PAGES, 'a') && !can_write(page(p, 12)), "its neighbours stay");
    check(mprotect(page(p, 10), 2 * PAGE_BYTES, RX) == 0 && all_bytes(page(p, 10), '#', 2 * PAGE_BYTES),
          "no longer writable it holds what was stored");
    check(is_whole(other), "the other mapping after stores");
    check(mprotect(p, BYTES, RW) == 0 && holds(p, 20, PAGES, 'a'), "all of it made writable");
    memset(page(p, 20), '#', BYTES - 20 * PAGE_BYTES);
    check(is_whole(other), "the other mapping after stores to all of it");
}

static void moved(char *p, char *other)
{
    char *to = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mremap(page(p, 30), PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to &&
              mprotect(to, PAGE_BYTES, RW) == 0 && all_bytes(to, byte_of('a', 30), PAGE_BYTES), "a page moved by mremap");
    memset(to, '#', PAGE_BYTES);
    check(mmap(page(p, 40), 2 * PAGE_BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page(p, 40) &&
              all_bytes(page(p, 40), 0, 2 * PAGE_BYTES), "anonymous memory over a part");
    memset(page(p, 40), '#', 2 * PAGE_BYTES);
    check(munmap(page(p, 50), 3 * PAGE_BYTES) == 0 && !can_read(page(p, 51)) && holds(p, 53, PAGES, 'a'), "a part unmapped");
    check(is_whole(other), "the other mapping after that");
}

static void in_a_child(char *p)
{
    pid_t child = forked();
    if (child == 0) {
        int done = is_whole(p) && mprotect(p, BYTES, RW) == 0;
        memset(p, '#', BYTES);
        _exit(!done);
    }
    int status = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "a child writes to what it has of it");
    check(is_whole(p), "its parent's stays");
}

// As package managers do it: the new file takes the old one's name.
static void replaced(char *p)
{
    make("new", 'A');
    check(rename("new", "f") == 0 && is_whole(p), "another file under its name");
    for (int round = 0; round < 2; round++) {
        char *now = map("f");
        check(holds(now, 0, PAGES, 'A'), "mapped anew it is the other file");
        check(is_whole(p), "the mapping of the old one stays");
        munmap(now, BYTES);
        settle("f");
    }
}

static void changed(void)
{
    int fd = open("f", O_WRONLY);
    munmap(map("f"), BYTES);
    need(pwrite(fd, "!", 1, 60 * PAGE_BYTES) == 1, "pwrite");
    close(fd);
    for (int round = 0; round < 2; round++) {
        char *now = map("f");
        check(*page(now, 60) == '!' && holds(now, 0, 60, 'A'), "mapped after a change it has what was written");
        munmap(now, BYTES);
        settle("f");
    }
}

int main(void)
{
    make("f", 'a');
    settle("f");
    char *stays = map("f");
    check(is_whole(stays), "the file's contents");
    written(map("f"), stays);
    moved(map("f"), stays);
    in_a_child(stays);
    for (int i = 0; i < 100; i++)
        munmap(map("f"), BYTES);
    check(is_whole(stays), "mapped and unmapped a hundred times");
    replaced(stays);
    changed();
    munmap(stays, BYTES);
    return check_done();
}
