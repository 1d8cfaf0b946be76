/*
 * The entry points of smartmap.h for programs that are linked with the
 * provider `margay` alone, static ones above all. On Linux such a program is
 * no rank, as without a provider.
 */
#define _GNU_SOURCE
#include "margay.h"
#include "rendezvous.h"
#include "smartmap.h"

uint32_t smartmap_provider_abi(void)
{
    return SMARTMAP_ABI;
}

int smartmap_provider_rank(void)
{
    return margay_rank();
}

int smartmap_provider_size(void)
{
    return margay_size();
}

int smartmap_provider_attach(int rank, pid_t pid)
{
    return margay_attach(rank, pid);
}

int smartmap_provider_join(int timeout_ms)
{
    return margay_join(timeout_ms);
}

int smartmap_provider_exports(const void *address, size_t bytes)
{
    return margay_exports(address, bytes);
}

int smartmap_provider_reachable(int rank, const void *address, size_t bytes)
{
    return margay_reachable(rank, address, bytes);
}

int smartmap_provider_shows(int rank, const void *address, size_t bytes)
{
    return margay_reachable(rank, address, bytes);
}

int smartmap_provider_keeps(void)
{
    return 0;
}

int smartmap_provider_alive(int rank)
{
    return margay_alive(rank);
}

uint64_t provider_job(void)
{
    return margay_present() ? margay_job() : 0;
}
