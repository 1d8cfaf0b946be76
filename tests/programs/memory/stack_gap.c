// Nothing is put right below the stack: a program that needs more of it than
// there is must fault, not write into its own data. Linux keeps 256 pages free
// (stack_guard_gap), also from a mapping that requests a place there.
#include "../common/check.h"

#include <sys/mman.h>

enum { GAP_BYTES = 256 * PAGE_BYTES, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

// The lines may show it in pieces, of which only one is called so.
static uintptr_t stack_begins(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], *rest;
    uintptr_t start = 0, end = 0, found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t from = strtoul(line, &rest, 16);
        if (from != end)
            start = from;
        end = strtoul(rest + 1, NULL, 16);
        if (strstr(line, "[stack]"))
            found = start;
    }
    if (maps)
        fclose(maps);
    return found;
}

static int keeps_away(uintptr_t start, uintptr_t hint, size_t bytes)
{
    uintptr_t at = (uintptr_t)mmap((void *)hint, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
    return at != (uintptr_t)MAP_FAILED && (at + bytes + GAP_BYTES <= start || at > (uintptr_t)&at);
}

int main(void)
{
    uintptr_t start = stack_begins();

    check(start != 0, "the stack is in /proc/self/maps");
    for (int i = 0; i < 8; i++)
        check(keeps_away(start, 0, PAGE_BYTES << i), "%d pages anywhere are not right below it", 1 << i);
    check(keeps_away(start, start - PAGE_BYTES, PAGE_BYTES), "a page that asks for the place below it");
    check(keeps_away(start, start - GAP_BYTES / 2, PAGE_BYTES), "a page that asks for a place in the gap");
    check(keeps_away(start, start - 2 * GAP_BYTES, 2 * GAP_BYTES), "pages that ask for all the gap and more");
    return check_done();
}
