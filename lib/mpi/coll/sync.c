/*
 * Waiting and signalling.  Collectives that never wait drive progress as well,
 * now and then (common/wait.h).
 */
#define _GNU_SOURCE
#include "coll_smartmap.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "opal/util/output.h"
#include "wait.h"

static int wait_long(smartmap_module_t *m, int rank, const _Atomic uint64_t *word,
                     uint64_t value)
{
    struct wait w = wait_begin(m->crowded);
    while (atomic_load_explicit(word, memory_order_acquire) < value)
        if (wait_more(&w) && !smartmap_alive(m->node_rank[rank]) &&
            atomic_load_explicit(word, memory_order_acquire) < value) {
            opal_output(0, "coll/smartmap: local rank %d waits in a collective for local "
                           "rank %d, which has died",
                        smartmap_rank(), m->node_rank[rank]);
            return MPI_ERR_OTHER;
        }
    return OMPI_SUCCESS;
}

/** Wait until a word of rank `rank`'s control block reaches `value`. */
int smartmap_wait(smartmap_module_t *m, int rank, const _Atomic uint64_t *word,
                  uint64_t value)
{
    if (OPAL_LIKELY(atomic_load_explicit(word, memory_order_acquire) >= value))
        return OMPI_SUCCESS;
    return wait_long(m, rank, word, value);
}

/** Wait until rank `rank` has finished reading for collective `op`. */
int smartmap_wait_done(smartmap_module_t *m, int rank, uint64_t op)
{
    if (m->seen_done[rank] >= op)
        return OMPI_SUCCESS;
    const _Atomic uint64_t *done = &m->peer[rank]->done;
    int error = smartmap_wait(m, rank, done, op);
    m->seen_done[rank] = atomic_load_explicit(done, memory_order_relaxed);
    return error;
}

static struct slot *slot_of(const smartmap_module_t *m, const struct control *c, uint64_t op)
{
    return (struct slot *)(c->slots + (op % SLOTS) * m->slot_bytes);
}

/** Begin the next collective: our slot for it, free to be written. */
int smartmap_slot_open(smartmap_module_t *m, struct slot **slot)
{
    uint64_t op = ++m->op;
    drive_progress();
    *slot = slot_of(m, m->own, op);
    if (op <= SLOTS)
        return OMPI_SUCCESS;
    for (int r = 0; r < m->size; r++) {
        int error = r == m->rank ? OMPI_SUCCESS : smartmap_wait_done(m, r, op - SLOTS);
        if (OPAL_UNLIKELY(error != OMPI_SUCCESS))
            return error;
    }
    (*slot)->far = 0;
    return OMPI_SUCCESS;
}

void smartmap_slot_post(smartmap_module_t *m, struct slot *slot)
{
    atomic_store_explicit(&slot->op, m->op, memory_order_release);
}

/** Wait for rank `rank`'s slot of the current collective. */
int smartmap_slot_read(smartmap_module_t *m, int rank, const struct slot **slot)
{
    const struct slot *s = slot_of(m, m->peer[rank], m->op);
    int error = OMPI_SUCCESS;
    *slot = s;
    if (atomic_load_explicit(&s->op, memory_order_acquire) >= m->op)
        /* It runs ahead of us, so its next contribution may be there, too. */
        __builtin_prefetch(slot_of(m, m->peer[rank], m->op + 1));
    else
        error = smartmap_wait(m, rank, &s->op, m->op);
    /* It posts only after it finished the collective before. */
    if (error == OMPI_SUCCESS && m->seen_done[rank] < m->op - 1)
        m->seen_done[rank] = m->op - 1;
    if (error == OMPI_SUCCESS && OPAL_UNLIKELY(s->kind == SLOT_ERROR))
        return MPI_ERR_NO_MEM;
    return error;
}

/** Say that we have read all we need for the current collective. */
void smartmap_done(smartmap_module_t *m)
{
    atomic_store_explicit(&m->own->done, m->op, memory_order_release);
}

/** Each counts its barriers, and waits for the others' counts: no slot, no done. */
int smartmap_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, barrier, comm);
    uint64_t turn = ++m->barriers;
    int error = OMPI_SUCCESS;
    drive_progress();
    atomic_store_explicit(&m->own->barriers, turn, memory_order_release);
    for (int r = 0; r < m->size && error == OMPI_SUCCESS; r++)
        if (r != m->rank)
            error = smartmap_wait(m, r, &m->peer[r]->barriers, turn);
    return error;
}

/**
 * Read what rank `rank` has outside of its arena, or in one that the program
 * has remapped: by process_vm_readv, which the provider passes on to Linux.
 * Where that is forbidden (Yama, seccomp), windows still show pages that the
 * program has only protected.
 */
int smartmap_fetch(smartmap_module_t *m, int rank, void *to, const void *from, size_t bytes)
{
    enum { MOST_BYTES = 1 << 30 }; /* Linux moves less than 2 GiB at a time */
    for (size_t at = 0; at < bytes;) {
        size_t part = bytes - at < MOST_BYTES ? bytes - at : MOST_BYTES;
        struct iovec local = { (char *)to + at, part }, remote = { (char *)from + at, part };
        ssize_t got = process_vm_readv(m->pid[rank], &local, 1, &remote, 1, 0);
        if (got <= 0 && smartmap_shows(m->node_rank[rank], (char *)from + at, bytes - at)) {
            memcpy((char *)to + at, smartmap_view(m, rank, (char *)from + at), bytes - at);
            return OMPI_SUCCESS;
        }
        if (got <= 0) {
            opal_output(0, "coll/smartmap: local rank %d cannot read from local rank %d, whose "
                           "arena is full or remapped: %s; try a larger SMARTMAP_ARENA_BYTES",
                        smartmap_rank(), m->node_rank[rank], strerror(errno));
            return MPI_ERR_NO_MEM;
        }
        at += (size_t)got;
    }
    return OMPI_SUCCESS;
}
