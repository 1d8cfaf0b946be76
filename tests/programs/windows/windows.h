// Shared by the programs of windows/: ranks that meet at words in rank 0's memory, which all see at the same address.
//
// Rank 0 checks and prints, and ends last: what the others find they leave in its memory.
#ifndef MARGAY_WINDOWS_H
#define MARGAY_WINDOWS_H

#include "pages.h"

#include "smartmap.h"

enum { MOST_RANKS = 255, MOST_STEPS = 4096 };

// In rank 0.
static struct meeting {
    _Atomic uint32_t arrived[MOST_STEPS];
    _Atomic uint64_t word[MOST_RANKS];
    _Atomic uint32_t wrong[MOST_RANKS];
} meeting_place;

static int own_rank, ranks;
static struct meeting *shared;

// What rank `rank` has at `address` here, too: all ranks run one program, at the same addresses.
#define OF(rank, address) ((__typeof__(address))smartmap_remote((unsigned)(rank), (address)))

// Who they are; `all`: when all have been started, of which none has ended yet.
CHECK_HELPER void find_ranks(int all)
{
    own_rank = smartmap_rank();
    ranks = smartmap_size();
    need(own_rank >= 0, "not a rank: run it by yod");
    need(!all || smartmap_join(3 * HANG_S * 1000) == 0, "smartmap_join"); // many are long in coming
    shared = OF(0, &meeting_place);
}

CHECK_HELPER void begin_ranks(void) { find_ranks(1); }

// Waits until all ranks have come to this step.
CHECK_HELPER void meet(int step)
{
    need(step < MOST_STEPS, "a step with a number");
    shared->arrived[step]++;
    AWAIT(shared->arrived[step] == (uint32_t)ranks);
}

// The others' memory goes when they end, and with rank 0's the meeting place.
CHECK_HELPER int end_ranks(void)
{
    if (own_rank != 0)
        return 0;
    for (int rank = 1; rank < ranks; rank++)
        AWAIT(!smartmap_alive(rank));
    return check_done();
}

// What an access to this address comes to: no signal (0), or SIGSEGV's code.
CHECK_HELPER void load_byte(void *at) { (void)*(volatile char *)at; }
CHECK_HELPER void store_byte(void *at) { *(volatile char *)at = 1; }
CHECK_HELPER void call_there(void *at) { ((void (*)(void))at)(); }

CHECK_HELPER void check_faults(void (*how)(void *), volatile void *at, int code, const char *what)
{
    struct fault fault = fault_of(how, (void *)at);
    int ok = fault.signo == SIGSEGV && fault.code == code && (code == SI_KERNEL || fault.addr == (void *)at);
    check(ok, "%s", what);
    if (!ok)
        printf("     signal %d, code %d, address %p instead of %p\n", fault.signo, fault.code, fault.addr, (void *)at);
}

CHECK_HELPER void check_works(void (*how)(void *), volatile void *at, const char *what)
{
    struct fault fault = fault_of(how, (void *)at);
    check(fault.signo == 0, "%s", what);
    if (fault.signo != 0)
        printf("     signal %d, code %d, address %p\n", fault.signo, fault.code, fault.addr);
}

#endif
