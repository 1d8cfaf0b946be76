// munmap: holes at the start, middle and end fault, the rest lives on; ranges
// over several maps and over nothing; lengths that are rounded up; refusals.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, PAGES = 48 };

static char *base;
static char there[PAGES];

static void drop(int from, int to)
{
    need(munmap(base + (size_t)from * PAGE_BYTES, (size_t)(to - from) * PAGE_BYTES) == 0, "munmap");
    memset(there + from, 0, (size_t)(to - from));
}

// Every page must be readable with its own number, or fault, as the list says.
static void compare(const char *text)
{
    int right = 0;
    for (int i = 0; i < PAGES; i++) {
        char *p = base + (size_t)i * PAGE_BYTES;
        int readable = can_read(p) && can_read(p + PAGE_BYTES - 1);
        right += readable == there[i] && (!readable || all_bytes(p, i + 1, PAGE_BYTES));
    }
    check(right == PAGES, "%s: all %d pages as expected", text, PAGES);
}

static void fill(void)
{
    base = mmap(base, PAGES * PAGE_BYTES, RW, ANON | (base ? MAP_FIXED : 0), -1, 0);
    need(base != MAP_FAILED, "mmap");
    for (int i = 0; i < PAGES; i++)
        memset(base + (size_t)i * PAGE_BYTES, i + 1, PAGE_BYTES);
    memset(there, 1, PAGES);
}

int main(void)
{
    fill();
    drop(20, 24);
    compare("a hole in the middle");
    drop(0, 3);
    compare("the start cut off");
    drop(44, 48);
    compare("the end cut off");
    drop(18, 30);
    compare("a hole made wider on both sides");
    drop(18, 30);
    compare("munmap of the hole itself succeeds");
    drop(10, 40);
    compare("one munmap over two maps and a hole");
    drop(0, PAGES);
    compare("all of it, mostly gone already");

    fill();
    for (int i = 1; i < PAGES; i += 2)
        drop(i, i + 1);
    compare("every second page");
    drop(7, 33);
    compare("a range over the islands");

    fill();
    check(munmap(base + 5 * PAGE_BYTES, 1) == 0, "a length of 1 byte");
    there[5] = 0;
    compare("takes a whole page");
    check_fails(munmap(base + 1, PAGE_BYTES), EINVAL, "an unaligned address");
    check_fails(munmap(base, 0), EINVAL, "a length of 0");
    check_fails(munmap(base, (size_t)-PAGE_BYTES), EINVAL, "a length that wraps around");
    check_fails(munmap((void *)0xffff800000000000, PAGE_BYTES), EINVAL, "a kernel address");
    compare("refusals changed nothing");

    struct fault f;
    drop(9, 10);
    f = fault_of(touch_write, base + 9 * PAGE_BYTES + 123);
    check(f.signo == SIGSEGV && f.code == SEGV_MAPERR, "a hole gives SIGSEGV, SEGV_MAPERR");
    check(f.addr == base + 9 * PAGE_BYTES + 123, "with the address that was touched");
    return check_done();
}
