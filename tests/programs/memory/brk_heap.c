// The program break, called directly: grows with zeros, shrinks so that what it
// leaves faults, grows again with zeros, refuses without moving.
#include "../common/check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

static char *set_break(char *to) { return (char *)syscall(SYS_brk, to); }

int main(void)
{
    static char line[256];
    setvbuf(stdout, line, _IOLBF, sizeof line); // so that printf leaves the heap alone
    char *start = set_break(NULL);
    check(start != NULL, "brk(0) tells the break");
    char *base = (char *)(((uintptr_t)start + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
    const size_t mb = 1 << 20;

    check(set_break(base + 8 * mb) == base + 8 * mb, "grown by 8 MB");
    check(all_bytes(base, 0, 8 * mb), "all zero");
    memset(base, 1, 8 * mb);
    check(set_break(base + 2 * mb) == base + 2 * mb, "shrunk to 2 MB");
    check(!can_read(base + 2 * mb) && can_read(base + 2 * mb - 1), "what it left faults");
    check(all_bytes(base, 1, 2 * mb), "the rest is kept");
    check(set_break(base + 8 * mb) == base + 8 * mb, "grown again");
    check(all_bytes(base + 2 * mb, 0, 6 * mb), "with zeros, no stale bytes");
    check(set_break(base + 8 * mb + 100) == base + 8 * mb + 100, "a break that is not aligned");
    check(can_write(base + 8 * mb + 99), "the byte below it is there");
    check(set_break(base + 8 * mb + 5) == base + 8 * mb + 5, "moved within its page");
    check(set_break((char *)8) == base + 8 * mb + 5, "a break below the start is refused");
    check(set_break((char *)0x7fffffffffff) == base + 8 * mb + 5, "one at the end of user space too");
    check(set_break(base + ((size_t)1 << 46)) == base + 8 * mb + 5, "64 TB too");
    check(all_bytes(base, 1, 2 * mb), "refusals changed nothing");

    int steps = 0;
    for (int i = 0; i < 1000; i++) {
        char *next = base + 8 * mb + (size_t)i * 5000;
        steps += set_break(next) == next;
        if (i)
            next[-1] = (char)i;
    }
    check(steps == 1000, "1000 small steps");
    check(set_break(base) == base && set_break(NULL) == base, "all given back");
    check(!can_read(base), "the first page faults");
    check(sbrk(0) != (void *)-1, "and the library still knows it");
    return check_done();
}
