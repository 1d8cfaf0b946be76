/*
 * What ranks know of each other without MPI, and before it: each announces what
 * it offers by a socket in Linux's abstract name space (unix(7)), which goes
 * with its process.  SO_PEERCRED tells the user and the pid of the one that
 * listens.  Connections are never accepted, so a queue fills up (its length is
 * net.core.somaxconn at most) and then says EAGAIN: there is such a socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rendezvous.h"
#include "smartmap.h"

static socklen_t name_of(struct sockaddr_un *name, int rank, const char *service)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1,
                     "smartmap.%u.%016llx.%.32s.%d", (unsigned)geteuid(),
                     (unsigned long long)provider_job(), service, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int smartmap_provider_announce(const char *service)
{
    struct sockaddr_un name;
    if (provider_job() == 0)
        return -ENOENT;
    socklen_t length = name_of(&name, smartmap_provider_rank(), service);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&name, length) != 0 ||
        listen(fd, SMARTMAP_MAX_RANKS) != 0) {
        int failure = -errno;
        close(fd);
        return failure;
    }
    return 0; /* stays open, and announced, for life */
}

int rendezvous_with(int rank, const char *service, struct ucred *peer)
{
    struct sockaddr_un name;
    socklen_t length = name_of(&name, rank, service), size = sizeof *peer;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int failed = connect(fd, (struct sockaddr *)&name, length) != 0 ||
                 getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) != 0;
    int failure = -errno;
    close(fd);
    if (failed)
        return failure;
    return peer->uid == geteuid() ? 0 : -EPERM;
}

int smartmap_provider_announced(int rank, const char *service)
{
    struct ucred peer;
    if (provider_job() == 0)
        return 0;
    int result = rendezvous_with(rank, service, &peer);
    return result == 0 || result == -EAGAIN;
}
