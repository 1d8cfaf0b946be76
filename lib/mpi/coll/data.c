/*
 * MPI's data-moving collectives, each said as an exchange (move.c).
 */
#include "copy.h"
#include "team.h"

enum { FETCHED_BYTES = 2048 }; /* two pieces of 1 KiB */

/** One buffer per rank; a job's ranks on a node are few enough for the stack. */
typedef struct buffer pieces_t[SMARTMAP_MAX_RANKS];

/**
 * Short pieces are fetched before the first peer is waited for.  Else each copy waits for
 * its lines, and so does all that is stored after it.
 */
static struct buffer one_piece(const void *address, size_t count, port_type_t type)
{
    struct buffer piece = { (void *)address, count, type };
    if (address != MPI_IN_PLACE) /* which comes with no count and no type (MPI 6.2.3) */
        fetch_short(address, smartmap_packed_bytes(&piece), FETCHED_BYTES);
    return piece;
}

/** Equal pieces of `count` elements, one after the other. */
static void equal_pieces(pieces_t to, int size, const void *base, size_t count,
                         port_type_t type)
{
    ptrdiff_t step = (ptrdiff_t)count * smartmap_shape(type).extent;
    fetch_short(base, (size_t)(size * step), FETCHED_BYTES);
    for (int r = 0; r < size; r++)
        to[r] = (struct buffer){ (char *)base + r * step, count, type };
}

/** Pieces at displacements counted in elements. */
static void varied_pieces(pieces_t to, int size, const void *base, struct numbers counts,
                          struct numbers displacements, port_type_t type)
{
    ptrdiff_t extent = smartmap_shape(type).extent;
    for (int r = 0; r < size; r++)
        to[r] = (struct buffer){ (char *)base + number(displacements, r) * extent,
                                 (size_t)number(counts, r), type };
}

/** Pieces of a type each, at displacements in bytes (MPI 6.9). */
static void typed_pieces(pieces_t to, int size, const void *base, struct numbers counts,
                         struct numbers displacements, const port_type_t *types)
{
    for (int r = 0; r < size; r++)
        to[r] = (struct buffer){ (char *)base + number(displacements, r),
                                 (size_t)number(counts, r), types[r] };
}

int smartmap_bcast(struct team *t, void *buffer, size_t count, port_type_t type, int root)
{
    struct buffer whole = one_piece(buffer, count, type);
    pieces_t in;
    in[root] = whole;
    struct exchange x = { .out_same = true, .reader = ALL_RANKS, .writer = NO_RANK };
    if (t->rank == root)
        x.out = &whole;
    else
        x.in = in, x.writer = root;
    return smartmap_exchange(t, &x);
}

static int gather(struct team *t, struct buffer own, bool in_place, const struct buffer *in,
                  int root)
{
    struct exchange x = { .out = &own, .out_same = true, .reader = root,
                          .writer = NO_RANK };
    if (t->rank == root)
        x = (struct exchange){ .out = in_place ? NULL : &own, .out_same = true,
                               .reader = NO_RANK, .in = in, .writer = ALL_RANKS,
                               .own_in_place = in_place };
    return smartmap_exchange(t, &x);
}

int smartmap_gather(struct team *t, const void *send, size_t scount, port_type_t stype,
                    void *receive, size_t rcount, port_type_t rtype, int root)
{
    pieces_t in;
    if (t->rank == root)
        equal_pieces(in, t->size, receive, rcount, rtype);
    struct buffer own = one_piece(send, scount, stype);
    return gather(t, own, send == MPI_IN_PLACE, in, root);
}

int smartmap_gatherv(struct team *t, const void *send, size_t scount, port_type_t stype,
                     void *receive, struct numbers rcounts, struct numbers displacements,
                     port_type_t rtype, int root)
{
    pieces_t in;
    if (t->rank == root)
        varied_pieces(in, t->size, receive, rcounts, displacements, rtype);
    struct buffer own = one_piece(send, scount, stype);
    return gather(t, own, send == MPI_IN_PLACE, in, root);
}

static int scatter(struct team *t, const struct buffer *out, struct buffer own, bool in_place,
                   int root)
{
    pieces_t in;
    in[root] = own;
    bool gives = t->rank == root;
    struct exchange x = { .out = gives ? out : NULL, .reader = gives ? ALL_RANKS : NO_RANK,
                          .in = in, .writer = root, .own_in_place = in_place };
    return smartmap_exchange(t, &x);
}

int smartmap_scatter(struct team *t, const void *send, size_t scount, port_type_t stype,
                     void *receive, size_t rcount, port_type_t rtype, int root)
{
    pieces_t out;
    if (t->rank == root)
        equal_pieces(out, t->size, send, scount, stype);
    struct buffer own = one_piece(receive, rcount, rtype);
    return scatter(t, out, own, receive == MPI_IN_PLACE, root);
}

int smartmap_scatterv(struct team *t, const void *send, struct numbers scounts,
                      struct numbers displacements, port_type_t stype, void *receive,
                      size_t rcount, port_type_t rtype, int root)
{
    pieces_t out;
    if (t->rank == root)
        varied_pieces(out, t->size, send, scounts, displacements, stype);
    struct buffer own = one_piece(receive, rcount, rtype);
    return scatter(t, out, own, receive == MPI_IN_PLACE, root);
}

static int allgather(struct team *t, struct buffer own, bool in_place, const struct buffer *in)
{
    struct exchange x = { .out = in_place ? &in[t->rank] : &own, .out_same = true,
                          .reader = ALL_RANKS, .in = in, .writer = ALL_RANKS,
                          .own_in_place = in_place };
    return smartmap_exchange(t, &x);
}

int smartmap_allgather(struct team *t, const void *send, size_t scount, port_type_t stype,
                       void *receive, size_t rcount, port_type_t rtype)
{
    pieces_t in;
    equal_pieces(in, t->size, receive, rcount, rtype);
    struct buffer own = one_piece(send, scount, stype);
    return allgather(t, own, send == MPI_IN_PLACE, in);
}

int smartmap_allgatherv(struct team *t, const void *send, size_t scount, port_type_t stype,
                        void *receive, struct numbers rcounts, struct numbers displacements,
                        port_type_t rtype)
{
    pieces_t in;
    varied_pieces(in, t->size, receive, rcounts, displacements, rtype);
    struct buffer own = one_piece(send, scount, stype);
    return allgather(t, own, send == MPI_IN_PLACE, in);
}

/** In place, peers would read what we overwrite: give them a copy. */
static int alltoall(struct team *t, const struct buffer *out, bool in_place,
                    const struct buffer *in)
{
    struct exchange x = { .out = in_place ? in : out, .out_copied = in_place,
                          .reader = ALL_RANKS, .in = in, .writer = ALL_RANKS,
                          .own_in_place = in_place };
    return smartmap_exchange(t, &x);
}

int smartmap_alltoall(struct team *t, const void *send, size_t scount, port_type_t stype,
                      void *receive, size_t rcount, port_type_t rtype)
{
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!in_place)
        equal_pieces(out, t->size, send, scount, stype);
    equal_pieces(in, t->size, receive, rcount, rtype);
    return alltoall(t, out, in_place, in);
}

int smartmap_alltoallv(struct team *t, const void *send, struct numbers scounts,
                       struct numbers sdisps, port_type_t stype, void *receive,
                       struct numbers rcounts, struct numbers rdisps, port_type_t rtype)
{
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!in_place)
        varied_pieces(out, t->size, send, scounts, sdisps, stype);
    varied_pieces(in, t->size, receive, rcounts, rdisps, rtype);
    return alltoall(t, out, in_place, in);
}

int smartmap_alltoallw(struct team *t, const void *send, struct numbers scounts,
                       struct numbers sdisps, const port_type_t *stypes, void *receive,
                       struct numbers rcounts, struct numbers rdisps,
                       const port_type_t *rtypes)
{
    bool in_place = send == MPI_IN_PLACE;
    pieces_t out, in;
    if (!in_place)
        typed_pieces(out, t->size, send, scounts, sdisps, stypes);
    typed_pieces(in, t->size, receive, rcounts, rdisps, rtypes);
    return alltoall(t, out, in_place, in);
}
