/*
 * Every collective against a serial model.
 *
 * All data is int32 whose value is a function of who sent it and where it
 * stands, so each rank can compute alone what it must receive.  Whole receive
 * buffers are compared, gaps and surroundings included: they must stay as they
 * were.  A case is a set of parameters that all ranks know (struct params);
 * conform.c enumerates them, soak.c draws them at random.
 */
#ifndef MODEL_H
#define MODEL_H

#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SENTINEL = 0x5e5e5e5e, UNIT = 6, LAYOUTS = 3, MARGIN = 16 };

enum collective {
    BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV,
    ALLTOALLW, MOVES,
    REDUCE = MOVES, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, BARRIER,
    COLLECTIVES
};

static const char *const collective_names[] = {
    "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
    "alltoall", "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter",
    "reduce_scatter_block", "scan", "exscan", "barrier",
};

enum operation { SUM_INT, MAX_INT, SUM_DOUBLE, MAXLOC, AFFINE, AFFINE_GAPS, OPERATIONS };

struct params {
    int what;          /* enum collective */
    int count;         /* UNITs of 6 ints, or elements of a reduction */
    int root;
    int in_place;
    int send, receive; /* layouts */
    int operation;
    int where;         /* 0: heap; 1: a private mapping, which no peer reaches */
};

/** How `n` ints lie in memory; `type` describes it to MPI. */
struct layout {
    int n, offset[3], extent;
    MPI_Datatype type;
};

static struct layout layouts[LAYOUTS] = {
    { 1, { 0 }, 1, 0 }, { 3, { 0, 2, 4 }, 7, 0 }, { 2, { 3, 1 }, 4, 0 },
};
static struct layout pair = { 2, { 0, 1 }, 2, 0 }, single = { 1, { 0 }, 1, 0 },
                     pair_gaps = { 2, { 1, 3 }, 5, 0 };
static MPI_Op affine;
static struct params running; /* for the report */
static int failures;

/** The map x -> a x + b; composing maps is associative, not commutative. */
static void compose(const int32_t *f, const int32_t *g, int32_t *result)
{
    uint32_t a = (uint32_t)f[0] * (uint32_t)g[0];
    uint32_t b = (uint32_t)f[0] * (uint32_t)g[1] + (uint32_t)f[1];
    result[0] = (int32_t)a;
    result[1] = (int32_t)b;
}

static void affine_op(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const struct layout *l = *type == pair_gaps.type ? &pair_gaps : &pair;
    for (int i = 0; i < *count; i++) {
        int32_t *f = (int32_t *)in + i * l->extent, *g = (int32_t *)inout + i * l->extent;
        int32_t x[2] = { f[l->offset[0]], f[l->offset[1]] };
        int32_t y[2] = { g[l->offset[0]], g[l->offset[1]] };
        compose(x, y, y);
        g[l->offset[0]] = y[0];
        g[l->offset[1]] = y[1];
    }
}

static void make_type(struct layout *l)
{
    MPI_Datatype indexed;
    MPI_Type_create_indexed_block(l->n, 1, l->offset, MPI_INT32_T, &indexed);
    MPI_Type_create_resized(indexed, 0, l->extent * (MPI_Aint)sizeof(int32_t), &l->type);
    MPI_Type_commit(&l->type);
    MPI_Type_free(&indexed);
}

static void model_start(void)
{
    for (int i = 0; i < LAYOUTS; i++)
        make_type(&layouts[i]);
    make_type(&pair);
    make_type(&pair_gaps);
    single.type = MPI_INT;
    MPI_Op_create(affine_op, 0, &affine);
}

static void model_stop(void)
{
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i].type);
    MPI_Type_free(&pair.type);
    MPI_Type_free(&pair_gaps.type);
    MPI_Op_free(&affine);
}

static int32_t value(int id, long k)
{
    uint32_t x = (uint32_t)id * 2654435761u + (uint32_t)k * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (int32_t)(x ^ x >> 13);
}

static size_t ints_for(long elements, const struct layout *l)
{
    return (size_t)(elements * l->extent) + 2 * MARGIN;
}

/** A buffer of sentinels; the returned pointer lies MARGIN ints inside it. */
static int32_t *make(size_t ints, int where)
{
    size_t bytes = ints * sizeof(int32_t);
    int32_t *p = where ? mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : malloc(bytes + 1);
    for (size_t i = 0; i < ints; i++)
        p[i] = SENTINEL;
    return p + MARGIN;
}

static void unmake(int32_t *p, size_t ints, int where)
{
    if (where)
        munmap(p - MARGIN, ints * sizeof(int32_t) + 1);
    else
        free(p - MARGIN);
}

/** Write ints [0, n) of stream `id` into elements beginning at `first`. */
static void put(int32_t *to, const struct layout *l, long first, long n, int id)
{
    to += first * l->extent;
    for (long k = 0; k < n; k++)
        to[k / l->n * l->extent + l->offset[k % l->n]] = value(id, k);
}

static void compare(const int32_t *got, const int32_t *want, size_t ints, int rank)
{
    if (memcmp(got - MARGIN, want - MARGIN, ints * sizeof *got) == 0)
        return;
    size_t i = 0;
    while (got[(long)i - MARGIN] == want[(long)i - MARGIN])
        i++;
    if (failures++ < 5)
        fprintf(stderr,
                "rank %d: %s count %d root %d in_place %d layouts %d/%d op %d where %d: "
                "int %ld is %08x, want %08x\n",
                rank, collective_names[running.what], running.count, running.root,
                running.in_place, running.send, running.receive, running.operation,
                running.where, (long)i - MARGIN, (unsigned)got[(long)i - MARGIN],
                (unsigned)want[(long)i - MARGIN]);
}

enum { MAX_RANKS = 64 };

/** Ints that `from` sends to `to`: equal, or varied for the v and w forms. */
static long ints_between(const struct params *p, int from, int to)
{
    switch (p->what) {
    case GATHERV: case ALLGATHERV: return UNIT * (long)(p->count + from % 3);
    case SCATTERV: return UNIT * (long)(p->count * ((to + 1) % 3));
    case ALLTOALLV: case ALLTOALLW:
        return UNIT * (long)(p->count * ((from + to) % 3));
    default: return UNIT * (long)p->count;
    }
}

/** Counts and displacements in elements of `l`; varied forms leave gaps. */
static long divide(const struct params *p, const struct layout *l, int size, int rank,
                   int receiving, int *counts, int *at)
{
    long end = 0;
    int gaps = p->what == GATHERV || p->what == SCATTERV || p->what == ALLGATHERV ||
               p->what == ALLTOALLV || p->what == ALLTOALLW;
    for (int r = 0; r < size; r++) {
        long ints = receiving ? ints_between(p, r, rank) : ints_between(p, rank, r);
        counts[r] = (int)(ints / l->n);
        at[r] = (int)end;
        end += counts[r] + (gaps ? 1 + r % 2 : 0);
    }
    return end;
}

static int stream(const struct params *p, int from, int to)
{
    int pairwise = p->what >= ALLTOALL || p->what == SCATTER || p->what == SCATTERV;
    return from * 100 + (pairwise ? to + 1 : 0);
}

static void call_rooted(const struct params *p, const void *send, const int *sc,
                        const int *sd, MPI_Datatype st, void *receive, const int *rc,
                        const int *rd, MPI_Datatype rt, int rank, MPI_Comm comm)
{
    int root = p->root, mine = rank == root && p->in_place;
    const void *s = mine ? MPI_IN_PLACE : send;
    switch (p->what) {
    case GATHER: MPI_Gather(s, sc[root], st, receive, rc[0], rt, root, comm); break;
    case GATHERV: MPI_Gatherv(s, sc[root], st, receive, rc, rd, rt, root, comm); break;
    case SCATTER:
        MPI_Scatter(send, sc[0], st, mine ? MPI_IN_PLACE : receive, rc[root], rt, root, comm);
        break;
    case SCATTERV:
        MPI_Scatterv(send, sc, sd, st, mine ? MPI_IN_PLACE : receive, rc[root], rt, root, comm);
        break;
    }
}

static void call_all(const struct params *p, const void *send, const int *sc, const int *sd,
                     MPI_Datatype st, void *receive, const int *rc, const int *rd,
                     MPI_Datatype rt, int rank, int size, MPI_Comm comm)
{
    const void *s = p->in_place ? MPI_IN_PLACE : send;
    MPI_Datatype sts[MAX_RANKS], rts[MAX_RANKS];
    int sb[MAX_RANKS], rb[MAX_RANKS];
    for (int r = 0; r < size; r++) {
        sts[r] = st;
        rts[r] = rt;
        sb[r] = sd[r] * layouts[p->send].extent * (int)sizeof(int32_t);
        rb[r] = rd[r] * layouts[p->receive].extent * (int)sizeof(int32_t);
    }
    switch (p->what) {
    case ALLGATHER: MPI_Allgather(s, sc[rank], st, receive, rc[0], rt, comm); break;
    case ALLGATHERV: MPI_Allgatherv(s, sc[rank], st, receive, rc, rd, rt, comm); break;
    case ALLTOALL: MPI_Alltoall(s, sc[0], st, receive, rc[0], rt, comm); break;
    case ALLTOALLV: MPI_Alltoallv(s, sc, sd, st, receive, rc, rd, rt, comm); break;
    case ALLTOALLW: MPI_Alltoallw(s, sc, sb, sts, receive, rc, rb, rts, comm); break;
    }
}

static void run_bcast(const struct params *p, int rank, MPI_Comm comm)
{
    const struct layout *l = &layouts[rank == p->root ? p->send : p->receive];
    long n = UNIT * (long)p->count;
    size_t ints = ints_for(n / l->n, l);
    int32_t *buffer = make(ints, p->where), *want = make(ints, 0);
    put(want, l, 0, n, p->root);
    if (rank == p->root)
        put(buffer, l, 0, n, p->root);
    MPI_Bcast(buffer, (int)(n / l->n), l->type, p->root, comm);
    compare(buffer, want, ints, rank);
    unmake(buffer, ints, p->where);
    unmake(want, ints, 0);
}

/** Does this rank give, and take, data in this collective? */
static int gives(const struct params *p, int rank)
{
    return (p->what != SCATTER && p->what != SCATTERV) || rank == p->root;
}

static int takes(const struct params *p, int rank)
{
    return (p->what != GATHER && p->what != GATHERV) || rank == p->root;
}

/** Everything that moves but bcast. */
static void run_move(const struct params *p, int rank, int size, MPI_Comm comm)
{
    const struct layout *sl = &layouts[p->send], *rl = &layouts[p->receive];
    int to_many = p->what == SCATTER || p->what == SCATTERV || p->what >= ALLTOALL;
    int from_many = p->what != SCATTER && p->what != SCATTERV;
    int sc[MAX_RANKS], sd[MAX_RANKS], rc[MAX_RANKS], rd[MAX_RANKS];
    size_t sints = ints_for(divide(p, sl, size, rank, 0, sc, sd) + 4, sl);
    size_t rints = ints_for(divide(p, rl, size, rank, 1, rc, rd) + 4, rl);
    int32_t *send = make(sints, p->where), *receive = make(rints, p->where),
            *want = make(rints, 0);
    int in_place = p->in_place && (rank == p->root || p->what >= ALLGATHER);
    for (int r = 0; gives(p, rank) && r < size; r++)
        if (to_many || r == 0)
            put(send, sl, to_many ? sd[r] : 0, ints_between(p, rank, r), stream(p, rank, r));
    for (int r = 0; takes(p, rank) && r < size; r++)
        if (from_many || r == p->root)
            put(want, rl, from_many ? rd[r] : 0, ints_between(p, r, rank), stream(p, r, rank));
    if (in_place && p->what >= ALLTOALL) /* what we send lies in `receive` */
        for (int r = 0; r < size; r++)
            put(receive, rl, rd[r], ints_between(p, rank, r), stream(p, rank, r));
    else if (in_place && from_many)
        put(receive, rl, rd[rank], ints_between(p, rank, rank), stream(p, rank, rank));
    else if (in_place) /* scatter: the root's buffer stays untouched */
        put(want, rl, 0, 0, 0), memcpy(want - MARGIN, receive - MARGIN, rints * 4);
    if (p->what < ALLGATHER)
        call_rooted(p, send, sc, sd, sl->type, receive, rc, rd, rl->type, rank, comm);
    else
        call_all(p, send, sc, sd, sl->type, receive, rc, rd, rl->type, rank, size, comm);
    compare(receive, want, rints, rank);
    unmake(send, sints, p->where);
    unmake(receive, rints, p->where);
    unmake(want, rints, 0);
}

#include "reductions.h"
#include "left_out.h"

static void run_case(const struct params *p, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    running = *p;
    if (left_out(p, size))
        return;
    if (p->what == BCAST)
        run_bcast(p, rank, comm);
    else if (p->what < MOVES)
        run_move(p, rank, size, comm);
    else if (p->what < BARRIER)
        run_reduction(p, rank, size, comm);
    else
        MPI_Barrier(comm);
}
#endif
