/*
 * What the files of the `linux` provider share.
 *
 * Address map of a process (all in user space, 47 bits):
 *
 *     0x0000_0010_0000_0000  64 GiB   arena: header page, then the heap
 *     0x0000_0030_0000_0000 192 GiB   end of the largest arena
 *     slot r+1 (r+1 << 39)  + same    window: the arena of rank r
 *
 * The arena stays clear of non-PIE programs and their break (low 4 GiB) and
 * ends before Go's heap hint.  Windows are mapped with MAP_FIXED_NOREPLACE,
 * so where Linux already put something (PIE programs live in slots 170-172)
 * that one rank is merely unreachable.
 */
#ifndef SMARTMAP_INTERNAL_H
#define SMARTMAP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "smartmap.h"

#define ARENA_BASE      (UINT64_C(64) << 30)
#define ARENA_MAX_BYTES (UINT64_C(128) << 30)
#define ARENA_MIN_BYTES (UINT64_C(64) << 20)
#define GRANULE_BYTES   (UINT64_C(2) << 20)
#define PAGE_BYTES      UINT64_C(4096)
#define ARENA_MAGIC     UINT64_C(0x50414d5452414d53) /* "SMARTMAP" */
#define ARENA_NAME      "smartmap-v1"

/** Bits of `irregular`. */
enum {
    PAGES_PROTECTED = 1, /* windows still show what the owner has */
    PAGES_REMAPPED = 2,  /* they no longer do */
};

/** First page of every arena; peers read it through their windows. */
struct arena_header {
    uint64_t magic;
    uint32_t abi;
    int32_t rank;
    int32_t pid;           /* peers may hold our memfd too: whose is it? */
    uint64_t job;          /* hash of user and job name */
    uint64_t bytes;        /* length of the arena, header included */
    _Atomic uint32_t irregular; /* what the program did to its heap's pages */
    pthread_mutex_t alive; /* robust, held for life: the kernel marks death */
};

/** Who we are, from the launcher's environment. */
struct job {
    int rank;       /* on the node; -1: not part of a job */
    int size;       /* ranks on the node */
    uint64_t key;   /* hash of user and job name */
    uint64_t arena_bytes; /* 0: the default */
    bool keeps;     /* peers may store what they have read */
};

void job_identify(struct job *job);

/* arena.c */
void arena_start(void);
bool arena_contains(const void *address, size_t bytes);
void arena_mark_irregular(const void *address, size_t bytes, uint32_t how);
const struct arena_header *arena_own(void);
int arena_rank(void);
void *arena_take(size_t bytes);
bool arena_give_back(void *address, size_t bytes);
void arena_drop_pages(void *address, size_t bytes);
bool arena_clear(void *address, size_t bytes);
void arena_for_each_used(void (*visit)(uint64_t start, uint64_t bytes, void *context),
                         void *context);
int arena_descriptor(void);
void arena_become_private(void);

/* fork.c */
void fork_register(void);

/* window.c */
int window_of_pid(pid_t pid);

/* Linux's own calls, past every interposer. */
void *raw_mmap(void *address, size_t bytes, int prot, int flags, int fd,
               off_t offset);
int raw_munmap(void *address, size_t bytes);
int raw_mprotect(void *address, size_t bytes, int prot);

#endif
