/* Announcing and finding, for the provider in the preload and for the one in static programs. */
#ifndef SMARTMAP_RENDEZVOUS_H
#define SMARTMAP_RENDEZVOUS_H

#include <stdint.h>
#include <sys/socket.h>

/** The provider's: a number that only the ranks of this job have; 0: we are in none. */
uint64_t provider_job(void);

/**
 * Who is rank `rank` that has announced `service`: 0, or a negative errno, of which
 * -EAGAIN is that one has, but cannot be told who. Needs _GNU_SOURCE.
 */
int rendezvous_with(int rank, const char *service, struct ucred *peer);

#endif
