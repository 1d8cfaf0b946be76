/*
 * What is known about an MPI handle (an int in MPICH's ABI): found without a
 * lock in each collective, written when a handle is first seen and when it is
 * freed.  Nodes are never given back, only used again, so a reader that meets
 * one that changes finds nothing, and searches with the lock where nodes are made.
 */
#ifndef SMARTMAP_MPICH_HANDLES_H
#define SMARTMAP_MPICH_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { BUCKETS = 64 };

struct handle {
    _Atomic int value;
    struct handle *_Atomic next;
};

struct handles {
    pthread_mutex_t making; /* held over calls of MPI, so never taken in its callbacks */
    pthread_mutex_t lock;   /* never held over calls of MPI */
    struct handle *spare;
    struct handle *_Atomic bucket[BUCKETS];
};

#define HANDLES_INITIALIZER \
    { .making = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER }

/** NULL: it is not known, or just changing. */
static inline struct handle *handles_find(struct handles *all, int value)
{
    struct handle *h = atomic_load_explicit(&all->bucket[value & (BUCKETS - 1)],
                                            memory_order_acquire);
    while (h && atomic_load_explicit(&h->value, memory_order_acquire) != value)
        h = atomic_load_explicit(&h->next, memory_order_acquire);
    return h;
}

/** NULL: it is not known.  While `making` is held, that stays so. */
struct handle *handles_search(struct handles *all, int value);
/** A node of so many bytes, `struct handle` first; NULL: no memory. */
struct handle *handles_take(struct handles *all, size_t bytes);
/** Once the rest of it is written. */
void handles_add(struct handles *all, struct handle *h, int value);
/** From now on it is not found. */
void handles_remove(struct handles *all, struct handle *h);

#endif
