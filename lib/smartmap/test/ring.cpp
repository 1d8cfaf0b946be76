// In C++: each rank reads its neighbour's vector and writes into it. The
// program around it is ring.c.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "smartmap.h"

extern "C" void *board_exchange(int rank, int size, void *address);
extern "C" void board_meet(int step, int size);
extern "C" int board_sees_all();

extern "C" int rank_main(int rank, int size, const char *)
{
    const std::size_t n = 50000, bytes = n * sizeof(std::int64_t);
    if (smartmap_rank() != rank || smartmap_size() != size || smartmap_join(60000) != 0)
        return 1;
    std::vector<std::int64_t> mine(n), expected(n);
    std::iota(mine.begin(), mine.end(), 1000 * rank);
    if (!smartmap_exports(mine.data(), bytes) || smartmap_exports(&mine, sizeof mine) != board_sees_all())
        return 1;

    const int next = (rank + 1) % size;
    void *address = board_exchange(rank, size, mine.data());
    if (!smartmap_alive(next) || !smartmap_reachable(next, address, bytes))
        return 1;
    auto *theirs = static_cast<std::int64_t *>(smartmap_remote(unsigned(next), address));
    std::iota(expected.begin(), expected.end(), 1000 * next);
    if (!std::equal(expected.begin(), expected.end(), theirs))
        return 1;
    board_meet(1, size);
    theirs[7] = -rank;
    board_meet(2, size);
    const bool right = mine[7] == -((rank + size - 1) % size);
    board_meet(3, size);
    return !right;
}
