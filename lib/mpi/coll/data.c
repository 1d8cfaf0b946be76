/*
 * MPI's data-moving collectives, each said as an exchange (move.c).
 */
#include "coll_smartmap.h"

#include <stdlib.h>

/** The i-th of equal pieces of `count` elements in a buffer. */
static struct buffer piece(const void *base, int count, ompi_datatype_t *type, size_t i)
{
    ptrdiff_t lb, extent;
    ompi_datatype_get_extent(type, &lb, &extent);
    return (struct buffer){ (char *)base + (ptrdiff_t)i * count * extent, (size_t)count,
                            type };
}

/** A piece at a displacement counted in elements. */
static struct buffer piece_at(const void *base, int count, int displacement,
                              ompi_datatype_t *type)
{
    ptrdiff_t lb, extent;
    ompi_datatype_get_extent(type, &lb, &extent);
    return (struct buffer){ (char *)base + displacement * extent, (size_t)count, type };
}

/** One buffer per rank; a job's ranks on a node are few enough for the stack. */
typedef struct buffer pieces_t[SMARTMAP_MAX_RANKS];

static void equal_pieces(pieces_t to, int size, const void *base, int count,
                         ompi_datatype_t *type)
{
    for (int r = 0; r < size; r++)
        to[r] = piece(base, count, type, (size_t)r);
}

static void varied_pieces(pieces_t to, int size, const void *base, const int *counts,
                          const int *displacements, ompi_datatype_t *type)
{
    for (int r = 0; r < size; r++)
        to[r] = piece_at(base, counts[r], displacements[r], type);
}

int smartmap_bcast(void *buffer, int count, ompi_datatype_t *type, int root,
                   ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, bcast, buffer, count, type, root, comm);
    struct buffer whole = { buffer, (size_t)count, type };
    pieces_t in;
    in[root] = whole;
    struct exchange x = { .out_same = true, .reader = ALL_RANKS, .writer = NO_RANK };
    if (m->rank == root)
        x.out = &whole;
    else
        x.in = in, x.writer = root;
    return smartmap_exchange(m, &x);
}

static int gather(smartmap_module_t *m, struct buffer own, bool in_place,
                  const struct buffer *in, int root)
{
    struct exchange x = { .out = &own, .out_same = true, .reader = root,
                          .writer = NO_RANK };
    if (m->rank == root)
        x = (struct exchange){ .out = in_place ? NULL : &own, .out_same = true,
                               .reader = NO_RANK, .in = in, .writer = ALL_RANKS,
                               .own_in_place = in_place };
    return smartmap_exchange(m, &x);
}

int smartmap_gather(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                    int rcount, ompi_datatype_t *rtype, int root,
                    ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, gather, send, scount, stype, receive, rcount, rtype,
                                 root, comm);
    if (m->rank == root)
        equal_pieces(in, m->size, receive, rcount, rtype);
    struct buffer own = { (void *)send, (size_t)scount, stype };
    return gather(m, own, send == MPI_IN_PLACE, in, root);
}

int smartmap_gatherv(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                     const int *rcounts, const int *displacements, ompi_datatype_t *rtype,
                     int root, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, gatherv, send, scount, stype, receive, rcounts,
                                 displacements, rtype, root, comm);
    if (m->rank == root)
        varied_pieces(in, m->size, receive, rcounts, displacements, rtype);
    struct buffer own = { (void *)send, (size_t)scount, stype };
    return gather(m, own, send == MPI_IN_PLACE, in, root);
}

static int scatter(smartmap_module_t *m, const struct buffer *out, struct buffer own,
                   bool in_place, int root)
{
    pieces_t in;
    in[root] = own;
    struct exchange x = { .in = in, .writer = root, .reader = NO_RANK };
    if (m->rank == root)
        x = (struct exchange){ .out = out, .reader = ALL_RANKS, .in = in,
                               .writer = root, .own_in_place = in_place };
    return smartmap_exchange(m, &x);
}

int smartmap_scatter(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                     int rcount, ompi_datatype_t *rtype, int root,
                     ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t out;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, scatter, send, scount, stype, receive, rcount, rtype,
                                 root, comm);
    if (m->rank == root)
        equal_pieces(out, m->size, send, scount, stype);
    struct buffer own = { receive, (size_t)rcount, rtype };
    return scatter(m, out, own, receive == MPI_IN_PLACE, root);
}

int smartmap_scatterv(const void *send, const int *scounts, const int *displacements,
                      ompi_datatype_t *stype, void *receive, int rcount,
                      ompi_datatype_t *rtype, int root, ompi_communicator_t *comm,
                      mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t out;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, scatterv, send, scounts, displacements, stype, receive,
                                 rcount, rtype, root, comm);
    if (m->rank == root)
        varied_pieces(out, m->size, send, scounts, displacements, stype);
    struct buffer own = { receive, (size_t)rcount, rtype };
    return scatter(m, out, own, receive == MPI_IN_PLACE, root);
}

static int allgather(smartmap_module_t *m, struct buffer own, bool in_place,
                     const struct buffer *in)
{
    struct exchange x = { .out = in_place ? &in[m->rank] : &own, .out_same = true,
                          .reader = ALL_RANKS, .in = in, .writer = ALL_RANKS,
                          .own_in_place = in_place };
    return smartmap_exchange(m, &x);
}

int smartmap_allgather(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                       int rcount, ompi_datatype_t *rtype, ompi_communicator_t *comm,
                       mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, allgather, send, scount, stype, receive, rcount, rtype,
                                 comm);
    equal_pieces(in, m->size, receive, rcount, rtype);
    struct buffer own = { (void *)send, (size_t)scount, stype };
    return allgather(m, own, send == MPI_IN_PLACE, in);
}

int smartmap_allgatherv(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                        const int *rcounts, const int *displacements,
                        ompi_datatype_t *rtype, ompi_communicator_t *comm,
                        mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    pieces_t in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, allgatherv, send, scount, stype, receive, rcounts,
                                 displacements, rtype, comm);
    varied_pieces(in, m->size, receive, rcounts, displacements, rtype);
    struct buffer own = { (void *)send, (size_t)scount, stype };
    return allgather(m, own, send == MPI_IN_PLACE, in);
}

/** In place, peers would read what we overwrite: give them a copy. */
static int alltoall(smartmap_module_t *m, const struct buffer *out, bool in_place,
                    const struct buffer *in)
{
    struct exchange x = { .out = in_place ? in : out, .out_copied = in_place,
                          .reader = ALL_RANKS, .in = in, .writer = ALL_RANKS,
                          .own_in_place = in_place };
    return smartmap_exchange(m, &x);
}

int smartmap_alltoall(const void *send, int scount, ompi_datatype_t *stype, void *receive,
                      int rcount, ompi_datatype_t *rtype, ompi_communicator_t *comm,
                      mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, alltoall, send, scount, stype, receive, rcount, rtype,
                                 comm);
    if (!in_place)
        equal_pieces(out, m->size, send, scount, stype);
    equal_pieces(in, m->size, receive, rcount, rtype);
    return alltoall(m, out, in_place, in);
}

int smartmap_alltoallv(const void *send, const int *scounts, const int *sdisps,
                       ompi_datatype_t *stype, void *receive, const int *rcounts,
                       const int *rdisps, ompi_datatype_t *rtype, ompi_communicator_t *comm,
                       mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, alltoallv, send, scounts, sdisps, stype, receive,
                                 rcounts, rdisps, rtype, comm);
    if (!in_place)
        varied_pieces(out, m->size, send, scounts, sdisps, stype);
    varied_pieces(in, m->size, receive, rcounts, rdisps, rtype);
    return alltoall(m, out, in_place, in);
}

int smartmap_alltoallw(const void *send, const int *scounts, const int *sdisps,
                       ompi_datatype_t *const *stypes, void *receive, const int *rcounts,
                       const int *rdisps, ompi_datatype_t *const *rtypes,
                       ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    smartmap_module_t *m = (smartmap_module_t *)module;
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!smartmap_ready(m, comm))
        return SMARTMAP_PREVIOUS(m, alltoallw, send, scounts, sdisps, stypes, receive,
                                 rcounts, rdisps, rtypes, comm);
    for (int r = 0; r < m->size; r++) { /* displacements in bytes, MPI 6.9 */
        if (!in_place)
            out[r] = (struct buffer){ (char *)send + sdisps[r], (size_t)scounts[r],
                                      stypes[r] };
        in[r] = (struct buffer){ (char *)receive + rdisps[r], (size_t)rcounts[r],
                                 rtypes[r] };
    }
    return alltoall(m, out, in_place, in);
}
