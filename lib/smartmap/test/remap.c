/*
 * The program treats pages of its heap as its own: rank r does the r-th thing.
 * Where its view of them may differ from its peers' from then on, its heap is
 * unreachable; where it does not, it stays reachable, with the same contents.
 */
#include "harness.h"

enum { PAGE = 4096, BYTES = 4 * PAGE };

/** Change the second page of a block of four; 0 when the block is done with. */
static int change(int rank, char *block)
{
    char *page = block + PAGE;
    switch (rank) {
    case 0: /* zeros, as of private memory */
        CHECK(madvise(page, PAGE, MADV_DONTNEED) == 0);
        CHECK(page[0] == 0 && page[PAGE - 1] == 0 && page[-1] == 1 && page[PAGE] == 1);
        return 1;
    case 1:
        CHECK(mprotect(page, PAGE, PROT_READ) == 0);
        CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
        return 1;
    case 2: {
        char *moved = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                             mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        CHECK(moved != MAP_FAILED && moved != page && moved[5] == 1);
        return 0;
    }
    case 3:
        CHECK(munmap(page, PAGE) == 0);
        return 0;
    default:
        CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0) == page);
        CHECK(page[5] == 0);
        return 1;
    }
}

int rank_main(int rank, int size, const char *mode)
{
    (void)mode;
    CHECK(smartmap_join(10000) == 0);
    char *block = aligned_alloc(PAGE, BYTES);
    memset(block, 1, BYTES);
    CHECK(smartmap_exports(block, BYTES));
    board->address[rank] = block;
    meet(0, size);
    int whole = change(rank, block);
    CHECK(smartmap_exports(block, BYTES) == (rank == 0));
    meet(1, size);
    for (int r = 0; r < size; r++)
        CHECK(r == rank || smartmap_reachable(r, board->address[r], BYTES) == (r == 0));
    const char *first = smartmap_remote(0, board->address[0]);
    CHECK(rank == 0 || (first[PAGE - 1] == 1 && first[PAGE] == 0 && first[2 * PAGE] == 1));
    char *after = malloc(1 << 20); /* the heap works on */
    memset(after, rank, 1 << 20);
    free(after);
    meet(2, size);
    if (whole)
        free(block);
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
