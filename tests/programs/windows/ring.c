// Once around all ranks: each waits for its own word, then adds itself to the next one's.
#include "windows.h"

static _Atomic uint64_t turn;

int main(void)
{
    begin_ranks();
    int next = (own_rank + 1) % ranks;
    if (own_rank == 0)
        *OF(next % ranks, &turn) += 1;
    AWAIT(turn != 0);
    uint64_t sum = turn;
    if (own_rank != 0)
        *OF(next, &turn) = sum + (uint64_t)own_rank + 1;
    else
        check(sum == (uint64_t)ranks * (ranks + 1) / 2, "%d ranks have had their turn", ranks);
    // A rank that is written to must be there still.
    meet(0);
    return end_ranks();
}
