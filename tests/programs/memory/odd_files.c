// Mapped files that go away, change their names or have another put in their place, and one of a TiB.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { TEXT_BYTES = 32 * PAGE_BYTES, RW = PROT_READ | PROT_WRITE };
#define TIB (1L << 40)

static char read_byte(int fd, off_t at)
{
    char byte = 0;
    need(pread(fd, &byte, 1, at) == 1, "pread");
    return byte;
}

// Of a letter everywhere.
static int make(const char *name, char letter)
{
    static char bytes[TEXT_BYTES];
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    memset(bytes, letter, sizeof bytes);
    need(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes, name);
    return fd;
}

static char *map(int fd, int prot, int how, off_t at)
{
    char *p = mmap(NULL, TEXT_BYTES, prot, how, fd, at);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static void deleted(void)
{
    int fd = make("deleted", 'd');
    char *shared = map(fd, RW, MAP_SHARED, 0), *text = map(fd, PROT_READ, MAP_PRIVATE, 0);
    check(unlink("deleted") == 0, "deleted");
    shared[5] = '5';
    check(read_byte(fd, 5) == '5' && text[5] == '5', "what is stored then is in it");
    close(fd);
    char *again = map(make("deleted", 'n'), RW, MAP_SHARED, 0);
    check(shared[5] == '5' && all_bytes(text + 6, 'd', TEXT_BYTES - 6) && all_bytes(again, 'n', TEXT_BYTES), "a new one of that name is another");
}

static void replaced(void)
{
    int fd = make("replaced", 'r');
    char *shared = map(fd, RW, MAP_SHARED, 0), *text = map(fd, PROT_READ, MAP_PRIVATE, 0);
    close(make("new", 'n'));
    check(rename("replaced", "renamed") == 0 && rename("new", "replaced") == 0, "renamed, and another in its place");
    shared[5] = '5';
    int renamed = open("renamed", O_RDWR), other = open("replaced", O_RDWR);
    check(read_byte(renamed, 5) == '5' && text[5] == '5' && read_byte(other, 5) == 'n', "what is stored goes where the name went");
    char *texts[] = {map(renamed, PROT_READ, MAP_PRIVATE, 0), map(other, PROT_READ, MAP_PRIVATE, 0)};
    check(texts[0][5] == '5' && all_bytes(texts[1], 'n', TEXT_BYTES), "each name shows its file");
    check(rename("replaced", "renamed") == 0 && all_bytes(shared + 6, 'r', TEXT_BYTES - 6), "one that another has replaced is still there");
}

static void vast(void)
{
    int fd = make("vast", 'v');
    need(ftruncate(fd, TIB) == 0, "ftruncate");
    char *end = map(fd, RW, MAP_SHARED, TIB - TEXT_BYTES);
    check(all_bytes(end, 0, TEXT_BYTES), "the end of a TiB is zeros");
    strcpy(end + TEXT_BYTES - 4, "end");
    check(read_byte(fd, TIB - 4) == 'e', "what is stored there is in the file");
    char *text = map(fd, PROT_READ, MAP_PRIVATE, TIB / 2), *start = map(fd, PROT_READ, MAP_PRIVATE, 0);
    check(all_bytes(text, 0, TEXT_BYTES) && all_bytes(start, 'v', TEXT_BYTES), "its middle, and its start");
    need(pwrite(fd, "m", 1, TIB / 2 + 9) == 1, "pwrite");
    check(text[9] == 'm' && start[9] == 'v', "each has its own place");
    need(ftruncate(fd, 0) == 0, "ftruncate");
    check(!can_read(end), "all of it is gone at once");
}

int main(void)
{
    deleted();
    replaced();
    vast();
    return check_done();
}
