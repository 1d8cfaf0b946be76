// Ranks that have not been started yet, as those see them that have: SIGSEGV, until they are there.
#include "windows.h"

static const uint64_t constant = 2;
// Has to be read from the file for each rank, which takes a while.
static volatile char ballast[8 << 20] = {1};
static uint64_t unstarted, wrong;

// Whether the rank was there all the time. While it is being started it may be reached before that is said.
static int look_at(int rank)
{
    int before = smartmap_alive(rank);
    struct fault fault = fault_of(load_byte, OF(rank, (char *)&constant));
    int after = smartmap_alive(rank);
    if (fault.signo != 0)
        wrong += before || fault.signo != SIGSEGV || fault.code != SEGV_MAPERR || fault.addr != OF(rank, (char *)&constant);
    unstarted += fault.signo != 0 && !after;
    return before && after;
}

static void look_at_those_behind(void)
{
    for (int rank = ranks - 1; rank > own_rank; rank--) {
        int64_t end = clock_ns(CLOCK_MONOTONIC) + 3 * HANG_S * NS_PER_S;
        while (!look_at(rank)) {
            need(clock_ns(CLOCK_MONOTONIC) < end, "still waiting for a rank");
            sched_yield();
        }
    }
}

// Each looks at those that are started behind it. Where all come late nothing was tried, which is said.
int main(void)
{
    find_ranks(0);
    need(ballast[0] == 1, "what was read");
    look_at_those_behind();
    need(smartmap_join(3 * HANG_S * 1000) == 0, "smartmap_join");
    atomic_fetch_add(&shared->word[0], unstarted);
    atomic_fetch_add(&shared->word[1], wrong);
    meet(0);
    if (own_rank == 0) {
        check(shared->word[1] == 0, "ranks that have not been started are not there, and those that have been are");
        printf("%s\n", shared->word[0] > 0 ? "seen before its start" : "all came late");
    }
    meet(1);
    return end_ranks();
}
