// Where the areas of two ranks begin: heap, mmap area and stack elsewhere, what is asked for by address at the same address.
//
// Both make the same requests; rank 0 compares. Areas that began alike made copies between them ten times slower.
#include "windows.h"

enum { SMALL_BYTES = 64 << 10, LARGE_BYTES = 3 << 20, PLACES = 6 };
#define SYMMETRIC ((char *)UINT64_C(0x2000000000))
// What a small TLB looks at.
#define ENTRY(address) ((uintptr_t)(address) / PAGE_BYTES % 64)

static const char *const names[PLACES] = {"the heap", "what malloc has of it", "a mapping", "a mapping with large pages", "large memory of malloc", "the stack"};
static char *_Atomic places[PLACES];
static char *_Atomic hinted, *_Atomic fixed;

int main(void)
{
    char on_stack[SMALL_BYTES];
    begin_ranks();
    places[0] = sbrk(0);
    places[1] = malloc(SMALL_BYTES);
    places[2] = pages(SMALL_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
    places[3] = pages(LARGE_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
    places[4] = malloc(LARGE_BYTES);
    places[5] = on_stack;
    // Symmetric memory: a hint is taken where nothing is.
    hinted = mmap(SYMMETRIC, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fixed = mmap(SYMMETRIC + LARGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int i = 1; i < PLACES; i++)
        *places[i] = (char)own_rank;
    meet(1);
    for (int i = 0; own_rank == 0 && i < PLACES; i++) {
        char *there = *OF(1, &places[i]);
        check(ENTRY(there) != ENTRY(places[i]), "%s begins elsewhere", names[i]);
        check(i == 0 || *OF(1, there) == 1, "and is seen there");
    }
    if (own_rank == 0) {
        check(hinted == SYMMETRIC && *OF(1, &hinted) == SYMMETRIC, "a hint gives both ranks one address");
        check(fixed == SYMMETRIC + LARGE_BYTES && *OF(1, &fixed) == fixed, "and so does MAP_FIXED");
    }
    meet(2);
    return end_ranks();
}
