// The memory that a child has of its parent: `forks_memory CASE`. The child checks
// by its exit status: only the parent prints.
#include "../common/children.h"

static int global = 1, *heap, *mapped, *parents_stack;
static const char constant[] = "constant";

static int change_memory(void)
{
    if (global != 1 || *heap != 2 || *mapped != 3 || *parents_stack != 4 || strcmp(constant, "constant") != 0)
        return 1;
    global = *heap = *mapped = *parents_stack = 100;
    return 0;
}

static void memory(void)
{
    int on_stack = 4;
    parents_stack = &on_stack;
    heap = malloc(sizeof *heap);
    *heap = 2;
    mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *mapped = 3;
    IN_CHILD("the child has a copy of all memory", change_memory);
    check(global == 1 && *heap == 2 && *mapped == 3 && on_stack == 4, "and what it writes there stays there");
}

static char *pages;

static int use_protections(void)
{
    if (pages[0] != 'r' || pages[PAGE_BYTES] != 'w')
        return 1;
    pages[PAGE_BYTES]++;
    if (can_write(pages) || !can_read(pages) || can_read(pages + 2 * PAGE_BYTES))
        return 2;
    if (mprotect(pages, PAGE_BYTES, PROT_READ | PROT_WRITE) != 0)
        return 3;
    pages[0] = 'x';
    return munmap(pages, PAGE_BYTES);
}

static void protections(void)
{
    pages = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[0] = 'r';
    pages[PAGE_BYTES] = 'w';
    need(mprotect(pages, PAGE_BYTES, PROT_READ) == 0, "mprotect");
    need(munmap(pages + 2 * PAGE_BYTES, PAGE_BYTES) == 0, "munmap");
    IN_CHILD("the child's memory has its protections", use_protections);
}

static int allocate(void)
{
    char *brk_before = sbrk(0);
    if (sbrk(1 << 20) != brk_before)
        return 1;
    memset(brk_before, 1, 1 << 20);
    for (int i = 0; i < 100; i++) {
        char *more = malloc(100000);
        if (more == NULL)
            return 2;
        memset(more, i, 100000);
    }
    char *large = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (large == MAP_FAILED || large[12345] != 0)
        return 3;
    return 0;
}

static void allocations(void) { IN_CHILD("the child gets more memory", allocate); }

static void *sparse;
static int look_at_sparse(void)
{
    const char *at = sparse;
    return !(at[5 << 20] == 'm' && at[0] == 0 && at[(16 << 20) - 1] == 0);
}

// Memory that was never touched costs a child nothing and is zero there.
static void untouched(void)
{
    char *at = sparse = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at[5 << 20] = 'm';
    IN_CHILD("untouched memory is zero", look_at_sparse);
}

#define LARGE_BYTES (6ul << 20)
static int move_adjoining(void)
{
    char *to = mremap(pages, LARGE_BYTES + PAGE_BYTES, 2 * LARGE_BYTES, MREMAP_MAYMOVE);
    if (to == MAP_FAILED)
        return 1;
    return !(to[0] == 'a' && to[LARGE_BYTES - 1] == 'z' && to[LARGE_BYTES] == 'b' && to[2 * LARGE_BYTES - 1] == 0);
}

// Copies of what was mapped in parts are one mapping, as natively, whatever pages they are made of.
static void adjoining(void)
{
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    pages = mmap(NULL, 2 * LARGE_BYTES, PROT_NONE, flags, -1, 0);
    need(mmap(pages + LARGE_BYTES, PAGE_BYTES, prot, flags | MAP_FIXED, -1, 0) != MAP_FAILED, "mmap");
    need(mmap(pages, LARGE_BYTES, prot, flags | MAP_FIXED, -1, 0) != MAP_FAILED, "mmap");
    memset(pages, 'a', LARGE_BYTES);
    pages[LARGE_BYTES - 1] = 'z';
    pages[LARGE_BYTES] = 'b';
    IN_CHILD("memory that adjoins moves as one", move_adjoining);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(memory), CASE(protections), CASE(allocations), CASE(untouched), CASE(adjoining),
    };
    return RUN_CASES(cases);
}
