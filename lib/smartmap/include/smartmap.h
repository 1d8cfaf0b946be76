/*
 * smartmap.h: reach the memory of the other ranks on this node.
 *
 * On the lightweight kernel slot r+1 of every address space shows rank r's
 * slot 0, so a remote address is plain arithmetic:
 *
 *     remote = ((rank + 1) << 39) | address
 *
 * (Brightwell, Hudson, Pedretti, "SMARTMAP", Salishan 2008.)  On stock Linux
 * the preloaded provider `linux` puts the heap in an arena below 512 GiB and
 * maps the peers' arenas by the same rule, so the same header serves both.
 * What lies outside the arena is reported unreachable; callers then copy.
 *
 * Every function works without the provider too: then nothing is reachable.
 * For C and C++.
 */
#ifndef SMARTMAP_H
#define SMARTMAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Ranks must agree on this number before they share memory. */
#define SMARTMAP_ABI 1u

/** A PML4 slot spans 512 GiB (AMD APM vol. 2, 5.3.3: bits 39..47 index it). */
#define SMARTMAP_SLOT_SHIFT 39

/** Slots 1..254 hold windows; 255 holds Linux's own stack and libraries. */
#define SMARTMAP_MAX_RANKS 254

/** The address at which this process sees `address` of rank `rank`. */
static inline void *smartmap_remote(unsigned rank, const volatile void *address)
{
    return (void *)(((uintptr_t)(rank + 1) << SMARTMAP_SLOT_SHIFT) |
                    (uintptr_t)address);
}

#define SMARTMAP_WEAK __attribute__((weak, visibility("default")))

/*
 * The provider's entry points.  They are weak: a program linked against this
 * header runs without the preload, and the wrappers below answer for it.
 */
SMARTMAP_WEAK uint32_t smartmap_provider_abi(void);
SMARTMAP_WEAK int smartmap_provider_rank(void);
SMARTMAP_WEAK int smartmap_provider_size(void);
SMARTMAP_WEAK int smartmap_provider_attach(int rank, pid_t pid);
SMARTMAP_WEAK int smartmap_provider_join(int timeout_ms);
SMARTMAP_WEAK int smartmap_provider_exports(const void *address, size_t bytes);
SMARTMAP_WEAK int smartmap_provider_reachable(int rank, const void *address,
                                              size_t bytes);
SMARTMAP_WEAK int smartmap_provider_shows(int rank, const void *address, size_t bytes);
SMARTMAP_WEAK int smartmap_provider_keeps(void);
SMARTMAP_WEAK int smartmap_provider_alive(int rank);
SMARTMAP_WEAK int smartmap_provider_announce(const char *service);
SMARTMAP_WEAK int smartmap_provider_announced(int rank, const char *service);

/** Is a provider of the same version loaded? */
static inline int smartmap_available(void)
{
    return smartmap_provider_abi != NULL &&
           smartmap_provider_abi() == SMARTMAP_ABI &&
           smartmap_provider_rank() >= 0;
}

/** This process's rank on the node, or -1 outside a job. */
static inline int smartmap_rank(void)
{
    return smartmap_available() ? smartmap_provider_rank() : -1;
}

/** Number of ranks of the job on this node, or 0 outside a job. */
static inline int smartmap_size(void)
{
    return smartmap_available() ? smartmap_provider_size() : 0;
}

/**
 * Open the window of rank `rank`, which is process `pid`.
 * Returns 0, or a negative errno: -ENOENT (that process has no arena),
 * -EXDEV (another job, rank or version), -EADDRINUSE (slot taken).
 */
static inline int smartmap_attach(int rank, pid_t pid)
{
    return smartmap_available() ? smartmap_provider_attach(rank, pid) : -38;
}

/**
 * For programs without MPI: announce this rank, find all others and open
 * their windows.  Every rank of the job must call it once.
 * Returns 0, -ETIMEDOUT, or the negative errno of the first failure.
 */
static inline int smartmap_join(int timeout_ms)
{
    return smartmap_available() ? smartmap_provider_join(timeout_ms) : -38;
}

/**
 * Tell the other ranks of the job, for as long as this process lives, that it
 * offers `service`, a word of at most 32 bytes.  Returns 0 or a negative errno.
 */
static inline int smartmap_announce(const char *service)
{
    return smartmap_available() && smartmap_provider_announce != NULL
               ? smartmap_provider_announce(service)
               : -38;
}

/** Has rank `rank` of this job, of the same user, announced `service`? */
static inline int smartmap_announced(int rank, const char *service)
{
    return smartmap_available() && smartmap_provider_announced != NULL &&
           smartmap_provider_announced(rank, service);
}

/** Can peers reach these bytes of ours (if they have our window open)? */
static inline int smartmap_exports(const void *address, size_t bytes)
{
    return smartmap_available() && smartmap_provider_exports(address, bytes);
}

/** Can we reach these bytes of rank `rank` at smartmap_remote()? */
static inline int smartmap_reachable(int rank, const void *address, size_t bytes)
{
    return smartmap_available() &&
           smartmap_provider_reachable(rank, address, bytes);
}

/**
 * Does the window show what rank `rank` has in these bytes?  Where its program
 * has protected heap pages (mprotect) that is so, but smartmap_reachable says
 * no, because Linux might refuse what we could do.  For reading.
 */
static inline int smartmap_shows(int rank, const void *address, size_t bytes)
{
    return smartmap_available() && smartmap_provider_shows != NULL &&
           smartmap_provider_shows(rank, address, bytes);
}

/**
 * May peers that have read what we export store there what they have read, so that the lines are
 * in their own caches only?  Not where windows show constants as well, nor with SMARTMAP_KEEP=0.
 */
static inline int smartmap_keeps(void)
{
    return smartmap_available() && smartmap_provider_keeps != NULL &&
           smartmap_provider_keeps();
}

/**
 * Is the process behind an open window still running?  Costs one load while its
 * initial thread runs; a look at /proc when that has ended.
 */
static inline int smartmap_alive(int rank)
{
    return smartmap_available() && smartmap_provider_alive(rank);
}

#ifdef __cplusplus
}
#endif
#endif
