/*
 * Ranks on the lightweight kernel: every rank's whole memory is there by
 * nature, and the kernel says who is in the job, on a page that is mapped
 * read-only (wire/src/info.rs). No question below makes a system call.
 */
#ifndef SMARTMAP_MARGAY_H
#define SMARTMAP_MARGAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Are we a rank on Margay? Then the functions below answer. */
bool margay_present(void);

/** A number that all ranks of this job have, and no other job while it lasts. */
uint64_t margay_job(void);

/* As the functions of smartmap.h. */
int margay_rank(void);
int margay_size(void);
int margay_attach(int rank, pid_t pid);
int margay_join(int timeout_ms);
int margay_exports(const void *address, size_t bytes);
int margay_reachable(int rank, const void *address, size_t bytes);
int margay_alive(int rank);

#endif
