// Rank 0 uses an address where rank 1 has nothing: by a read, which ends it ("crash"), or in a call ("call"). Rank 1 looks at its
// own memory only: rank 0's goes with it.
#include "windows.h"

static _Atomic int ready, over;

int main(int argc, char **argv)
{
    need(argc > 1, "a way");
    begin_ranks();
    if (own_rank == 1) {
        ready = 1;
        AWAIT(over);
    }
    if (own_rank != 0)
        return 0;
    volatile char *there = OF(1, (char *)0x1000);
    AWAIT(*OF(1, &ready));
    if (strcmp(argv[1], "crash") == 0)
        (void)*there;
    check_fails(mprotect((void *)(uintptr_t)there, PAGE_BYTES, PROT_READ), ENOMEM, "memory of another rank is none of one's own");
    *OF(1, &over) = 1;
    return end_ranks();
}
