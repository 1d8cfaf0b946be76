/*
 * The provider `margay`.
 *
 * All of a rank's memory lies below 512 GiB and is seen by all others, so
 * whether bytes can be reached is a matter of the address alone. Whether
 * anything is mapped there the owner knows, as for any pointer.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <time.h>

#include "margay.h"
#include "smartmap.h"

enum { VERSION = 1, MAX_RANKS = 255, SET_WORDS = 4 };

/** Entry of the auxiliary vector (abi/src/map.rs, AT_MARGAY). */
#define AT_MARGAY 0x4d47

/** Below it the kernel maps nothing (abi/src/map.rs, USER_BASE). */
#define LOWEST UINT64_C(0x10000)
#define HIGHEST (UINT64_C(1) << SMARTMAP_SLOT_SHIFT)

/** The page, as wire/src/info.rs has it. */
struct info {
    uint64_t version, rank, ranks;
    _Atomic uint64_t started[SET_WORDS], lives[SET_WORDS];
    _Atomic uint64_t pids[MAX_RANKS];
};

/** The page; NULL elsewhere than on Margay, or with another layout. Asked for at every turn, and looked for once. */
static const struct info *info(void)
{
    static const struct info nobody;
    static const struct info *_Atomic found;
    const struct info *page = atomic_load_explicit(&found, memory_order_relaxed);
    if (!page) {
        int before = errno; /* getauxval sets it where there is no page */
        page = (const struct info *)getauxval(AT_MARGAY);
        errno = before;
        if (!page || page->version != VERSION)
            page = &nobody;
        atomic_store_explicit(&found, page, memory_order_relaxed);
    }
    return page == &nobody ? NULL : page;
}

static bool is_in(const _Atomic uint64_t *set, int rank)
{
    uint64_t word = atomic_load_explicit(&set[rank / 64], memory_order_acquire);
    return word >> (rank % 64) & 1;
}

static bool is_rank(int rank)
{
    return rank >= 0 && rank < margay_size();
}

bool margay_present(void)
{
    return info() != NULL;
}

int margay_rank(void)
{
    return info() ? (int)info()->rank : -1;
}

int margay_size(void)
{
    return info() ? (int)info()->ranks : 0;
}

int margay_alive(int rank)
{
    return is_rank(rank) && is_in(info()->lives, rank);
}

int margay_exports(const void *address, size_t bytes)
{
    uint64_t start = (uint64_t)address;
    return info() && start >= LOWEST && start <= HIGHEST && bytes <= HIGHEST - start;
}

int margay_reachable(int rank, const void *address, size_t bytes)
{
    return rank != margay_rank() && margay_alive(rank) && margay_exports(address, bytes);
}

/** The window is open as long as the rank lives; is it that process? */
int margay_attach(int rank, pid_t pid)
{
    if (!is_rank(rank))
        return -EINVAL;
    if (!margay_alive(rank))
        return -ENOENT;
    return atomic_load_explicit(&info()->pids[rank], memory_order_relaxed) == (uint64_t)pid ? 0 : -EXDEV;
}

/** Rank 0's process: all ranks of a job start, or none goes on. */
uint64_t margay_job(void)
{
    while (!is_in(info()->started, 0))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return atomic_load_explicit(&info()->pids[0], memory_order_relaxed);
}

int margay_join(int timeout_ms)
{
    for (int rank = 0; rank < margay_size(); rank++) {
        for (; !is_in(info()->started, rank); timeout_ms--) {
            if (timeout_ms <= 0)
                return -ETIMEDOUT;
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        if (!margay_alive(rank))
            return -ENOENT;
    }
    return 0;
}
