// Files that rank 1 maps and shares, through rank 0's window on it: written there they are written back, and frames that come
// back to the node's pool are not seen as what they were. The pool has no room for both files.
#include "windows.h"

#include <fcntl.h>

enum { BYTES = 3 << 20 };

static char *_Atomic first, *_Atomic second;
static atomic_int written_back, untouched;

static char *map(const char *name, char *at)
{
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, name);
    char *p = mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    need(p != MAP_FAILED, "mmap");
    close(fd);
    return p;
}

static void rank_1(void)
{
    char byte = 0;
    first = map("first", NULL);
    memset(first, 'a', BYTES);
    meet(1);
    meet(2); // rank 0 has looked, and written
    char *other = first - (64 << 20);
    munmap(first, BYTES);
    int fd = open("first", O_RDONLY);
    written_back = pread(fd, &byte, 1, 5 * PAGE_BYTES) == 1 && byte == 'w';
    second = map("second", other);
    memset(second, 'b', BYTES);
    meet(3);
    meet(4);
    untouched = all_bytes(second, 'b', BYTES);
    meet(5);
    meet(6);
}

int main(void)
{
    begin_ranks();
    if (own_rank == 1)
        rank_1();
    if (own_rank != 0)
        return 0;
    meet(1);
    char *there = OF(1, *OF(1, &first));
    check(all_bytes(there, 'a', BYTES), "a file that rank 1 maps and shares");
    there[5 * PAGE_BYTES] = 'w';
    meet(2);
    meet(3);
    check(*OF(1, &written_back), "what was stored through the window is in the file");
    int faults = 0;
    for (int page = 0; page < BYTES / PAGE_BYTES; page++)
        faults += fault_of(store_byte, there + page * PAGE_BYTES).signo == SIGSEGV;
    check(faults == BYTES / PAGE_BYTES, "the file that it has unmapped is gone");
    check(OF(1, *OF(1, &second))[BYTES - 1] == 'b', "the next one is there");
    meet(4);
    meet(5);
    check(*OF(1, &untouched), "as rank 1 has written it");
    meet(6);
    return end_ranks();
}
