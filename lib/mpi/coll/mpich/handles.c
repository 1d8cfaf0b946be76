#include "handles.h"

#include <stdlib.h>

static struct handle *_Atomic *bucket_of(struct handles *all, int value)
{
    return &all->bucket[value & (BUCKETS - 1)];
}

struct handle *handles_search(struct handles *all, int value)
{
    pthread_mutex_lock(&all->lock);
    struct handle *h = handles_find(all, value);
    pthread_mutex_unlock(&all->lock);
    return h;
}

struct handle *handles_take(struct handles *all, size_t bytes)
{
    pthread_mutex_lock(&all->lock);
    struct handle *h = all->spare;
    if (h)
        all->spare = atomic_load(&h->next);
    pthread_mutex_unlock(&all->lock);
    return h ? h : calloc(1, bytes);
}

void handles_add(struct handles *all, struct handle *h, int value)
{
    pthread_mutex_lock(&all->lock);
    struct handle *_Atomic *bucket = bucket_of(all, value);
    atomic_store(&h->value, value);
    atomic_store(&h->next, atomic_load(bucket));
    atomic_store_explicit(bucket, h, memory_order_release);
    pthread_mutex_unlock(&all->lock);
}

void handles_remove(struct handles *all, struct handle *h)
{
    pthread_mutex_lock(&all->lock);
    struct handle *_Atomic *link = bucket_of(all, atomic_load(&h->value));
    while (atomic_load(link) != h)
        link = &atomic_load(link)->next;
    atomic_store(link, atomic_load(&h->next));
    atomic_store(&h->value, 0); /* of no kind of handle */
    atomic_store(&h->next, all->spare);
    all->spare = h;
    pthread_mutex_unlock(&all->lock);
}
