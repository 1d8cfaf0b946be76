/* The program around ring.f90: spawns its ranks and holds the board. */
#include "harness.h"

/** Leave our address, and get that of the next rank. */
void *board_exchange(int rank, int size, void *address);
void *board_exchange(int rank, int size, void *address)
{
    board->address[rank] = address;
    meet(0, size);
    return board->address[(rank + 1) % size];
}

void board_meet(int step, int size);
void board_meet(int step, int size)
{
    meet(step, size);
}

/** Are stacks and static data reachable, too? */
int board_sees_all(void);
int board_sees_all(void)
{
    return is_on_margay();
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
