// Ranks that have ended, as those see them that are left: who has found one gone does not reach it after the next system call. They
// end one after the other, from the last, and all before them look.
#include "windows.h"

static const uint64_t constant = 2;

static int is_gone(int rank)
{
    AWAIT(!smartmap_alive(rank));
    syscall(SYS_getppid);
    struct fault fault = fault_of(load_byte, OF(rank, (char *)&constant));
    return fault.signo == SIGSEGV && fault.code == SEGV_MAPERR && fault.addr == OF(rank, (char *)&constant);
}

int main(void)
{
    begin_ranks();
    for (int rank = own_rank + 1; rank < ranks; rank++)
        need(*OF(rank, &constant) == 2, "its memory");
    meet(0);
    for (int rank = ranks - 1; rank > own_rank; rank--)
        shared->wrong[own_rank] += !is_gone(rank);
    if (own_rank != 0)
        return 0;
    uint32_t wrong = 0;
    for (int rank = 0; rank < ranks; rank++)
        wrong += shared->wrong[rank];
    check(wrong == 0, "a rank that has ended is not reached (%u times)", wrong);
    return end_ranks();
}
