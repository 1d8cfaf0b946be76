/*
 * The questions of smartmap.h as symbols that smartmap.f90 can bind to: weak
 * references, by which programs run without the preload, are C's only.
 */
#include "smartmap.h"

int smartmap_f_rank(void)
{
    return smartmap_rank();
}

int smartmap_f_size(void)
{
    return smartmap_size();
}

int smartmap_f_attach(int rank, int pid)
{
    return smartmap_attach(rank, pid);
}

int smartmap_f_join(int timeout_ms)
{
    return smartmap_join(timeout_ms);
}

int smartmap_f_exports(const void *address, size_t bytes)
{
    return smartmap_exports(address, bytes);
}

int smartmap_f_reachable(int rank, const void *address, size_t bytes)
{
    return smartmap_reachable(rank, address, bytes);
}

int smartmap_f_alive(int rank)
{
    return smartmap_alive(rank);
}
