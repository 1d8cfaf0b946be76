/*
 * process_vm_readv and process_vm_writev between ranks, as copies in user
 * space through the window.  Unmodified Open MPI (vader's CMA) and MPICH (UCX)
 * move their large messages with these calls.
 *
 * The copy is taken only where Linux could not have answered otherwise: flags
 * are zero, counts and lengths are in range, the peer lives, and both sides
 * lie wholly in arenas that nobody remapped, where no access can fault.  Then
 * the result is min(local bytes, remote bytes), process_vm_readv(2).  In every
 * other case Linux itself is asked, so errors and partial results are its own.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

/* import_iovec() truncates at MAX_RW_COUNT; leave that to Linux. */
#define MAX_COPY_BYTES ((size_t)INT_MAX & ~(PAGE_BYTES - 1))

/** Sum of the lengths, or SIZE_MAX when Linux must judge. */
static size_t total_bytes(const struct iovec *iov, unsigned long count)
{
    size_t total = 0;
    if (count > IOV_MAX)
        return SIZE_MAX;
    for (unsigned long i = 0; i < count; i++) {
        if (iov[i].iov_len > MAX_COPY_BYTES)
            return SIZE_MAX;
        total += iov[i].iov_len;
    }
    return total <= MAX_COPY_BYTES ? total : SIZE_MAX;
}

static bool all_local(const struct iovec *iov, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        if (!smartmap_provider_exports(iov[i].iov_base, iov[i].iov_len))
            return false;
    return true;
}

static bool all_remote(int rank, const struct iovec *iov, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        if (!smartmap_provider_reachable(rank, iov[i].iov_base, iov[i].iov_len))
            return false;
    return true;
}

/** The rank to copy from or to, or -1 when Linux must be asked. */
static int fast_path(pid_t pid, const struct iovec *local, unsigned long locals,
                     const struct iovec *remote, unsigned long remotes,
                     unsigned long flags)
{
    /* An iovec array in the arena or on the stack is readable; elsewhere it
     * may fault, and EFAULT is Linux's to return. */
    if (flags != 0 || !arena_own() || locals == 0 || remotes == 0 ||
        locals > IOV_MAX || remotes > IOV_MAX)
        return -1;
    int rank = window_of_pid(pid);
    if (rank < 0 || total_bytes(local, locals) == SIZE_MAX ||
        total_bytes(remote, remotes) == SIZE_MAX || !all_local(local, locals) ||
        !all_remote(rank, remote, remotes))
        return -1;
    return rank;
}

/** Walk both vectors; `outward` copies local to remote. */
static ssize_t copy_vectors(int rank, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes,
                            bool outward)
{
    size_t done = 0, local_at = 0, remote_at = 0;
    unsigned long l = 0, r = 0;
    while (l < locals && r < remotes) {
        size_t local_left = local[l].iov_len - local_at;
        size_t remote_left = remote[r].iov_len - remote_at;
        size_t part = local_left < remote_left ? local_left : remote_left;
        char *mine = (char *)local[l].iov_base + local_at;
        char *theirs = (char *)smartmap_remote((unsigned)rank, remote[r].iov_base) +
                       remote_at;
        if (part > 0)
            memcpy(outward ? theirs : mine, outward ? mine : theirs, part);
        done += part;
        local_at += part;
        remote_at += part;
        if (local_at == local[l].iov_len)
            l++, local_at = 0;
        if (r < remotes && remote_at == remote[r].iov_len)
            r++, remote_at = 0;
    }
    return (ssize_t)done;
}

EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                                unsigned long locals, const struct iovec *remote,
                                unsigned long remotes, unsigned long flags)
{
    int rank = fast_path(pid, local, locals, remote, remotes, flags);
    if (rank < 0)
        return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
    return copy_vectors(rank, local, locals, remote, remotes, false);
}

EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *local,
                                 unsigned long locals, const struct iovec *remote,
                                 unsigned long remotes, unsigned long flags)
{
    int rank = fast_path(pid, local, locals, remote, remotes, flags);
    if (rank < 0)
        return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
    return copy_vectors(rank, local, locals, remote, remotes, true);
}
