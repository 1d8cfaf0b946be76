/* Layouts of messages, and areas of memory that are filled and judged by a serial model: MPI_Pack and MPI_Unpack. */
#ifndef AREAS_H
#define AREAS_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUTS = 5, SENTINEL = 0x5a };

static int rank, size, failures;
static MPI_Datatype layout[LAYOUTS];

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/** All have extents that are multiples of 8, and six ints or their like. */
static void make_layouts(void)
{
    int blocks[] = { 1, 2, 3 }, places[] = { 9, 5, 0 };
    MPI_Aint far[] = { 0, 40 };
    int lengths[] = { 2, 2 };
    MPI_Datatype members[] = { MPI_INT, MPI_DOUBLE }, plain;
    MPI_Type_contiguous(6, MPI_INT, &layout[0]);
    MPI_Type_vector(3, 2, 5, MPI_INT, &layout[1]);
    MPI_Type_indexed(3, blocks, places, MPI_INT, &layout[2]); /* backwards */
    MPI_Type_create_struct(2, lengths, far, members, &layout[3]);
    MPI_Type_contiguous(24, MPI_BYTE, &plain);
    MPI_Type_create_resized(plain, -8, 48, &layout[4]);
    MPI_Type_free(&plain);
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_commit(&layout[i]);
}

/** A buffer for `count` of a type: `at` is what MPI gets. */
struct area {
    char *base, *at;
    size_t bytes;
};

static struct area make_area(MPI_Datatype type, int count)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    size_t bytes = (size_t)extent * (size_t)count + 256;
    struct area a = { malloc(bytes), NULL, bytes };
    memset(a.base, SENTINEL, bytes);
    a.at = a.base + 64;
    return a;
}

static int packed_bytes(MPI_Datatype type, int count)
{
    int bytes;
    MPI_Type_size(type, &bytes);
    return bytes * count;
}

static unsigned char value(int from, int to, int seed, int i)
{
    return (unsigned char)(from * 31 + to * 7 + seed * 13 + i * 3 + i / 256);
}

static void fill(const struct area *a, MPI_Datatype type, int count, int to, int seed)
{
    int bytes = packed_bytes(type, count), position = 0;
    unsigned char *packed = malloc((size_t)bytes + 1);
    for (int i = 0; i < bytes; i++)
        packed[i] = value(rank, to, seed, i);
    MPI_Unpack(packed, bytes, &position, a->at, count, type, MPI_COMM_SELF);
    free(packed);
}

/** What the area must hold after `bytes` came from `from`: nothing else. */
static void judge(const struct area *a, MPI_Datatype type, int bytes, int from, int seed,
                  const char *what)
{
    int unit = packed_bytes(type, 1), position = 0;
    struct area model = { malloc(a->bytes), NULL, a->bytes };
    unsigned char *packed = malloc((size_t)bytes + 1);
    memset(model.base, SENTINEL, model.bytes);
    for (int i = 0; i < bytes; i++)
        packed[i] = value(from, rank, seed, i);
    MPI_Unpack(packed, bytes, &position, model.base + 64, bytes / unit, type, MPI_COMM_SELF);
    expect(memcmp(model.base, a->base, a->bytes) == 0, what);
    free(packed);
    free(model.base);
}

#endif
