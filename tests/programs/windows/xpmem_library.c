// The library for XPMEM, as MPI libraries use it: each rank offers all of its memory, and attaches the other's.
#include "windows.h"

#include "xpmem.h"

enum { AREA_BYTES = 64 << 10 };

static volatile char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));
static volatile xpmem_segid_t offer;

int main(void)
{
    begin_ranks();
    int other = 1 - own_rank;
    area[0] = (char)('a' + own_rank);
    offer = xpmem_make(NULL, XPMEM_MAXADDR_SIZE, XPMEM_PERMIT_MODE, (void *)0666);
    need(offer > 0, "xpmem_make");
    meet(0);
    xpmem_apid_t permit = xpmem_get(*OF(other, &offer), XPMEM_RDWR, XPMEM_PERMIT_MODE, (void *)0666);
    struct xpmem_addr from = {.apid = permit, .offset = (off_t)(uintptr_t)area};
    volatile char *at = xpmem_attach(from, AREA_BYTES, NULL);
    need(permit > 0 && at != (char *)-1, "xpmem_attach");
    shared->word[own_rank] = at[0] == 'a' + other;
    at[1] = 'w';
    meet(1);
    if (own_rank == 0) {
        check(shared->word[0] && shared->word[1] && area[1] == 'w', "each reads and writes the other's memory");
        check(xpmem_version() >= 0x26000, "a version");
        check(xpmem_detach((void *)at) == 0 && xpmem_release(permit) == 0, "given back");
        check_fails(xpmem_release(permit), ENOENT, "once");
        check_fails(xpmem_detach((void *)area), EINVAL, "what was not attached");
        check(xpmem_attach(from, AREA_BYTES, NULL) == (void *)-1 && errno == ENOENT, "attached no more");
        check_fails(xpmem_make(NULL, 1, XPMEM_PERMIT_MODE, (void *)0666), EINVAL, "a wrong offer");
        check_fails(xpmem_get(*OF(other, &offer) + 1, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL), ENOENT, "a forged id");
        check_fails(xpmem_remove(*OF(other, &offer)), EACCES, "another's offer");
        check(xpmem_remove(offer) == 0, "an offer taken back");
    }
    meet(2);
    return end_ranks();
}
