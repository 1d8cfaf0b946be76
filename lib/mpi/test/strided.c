/*
 * strided: what common/openmpi/strided.c moves against MPI_Pack and MPI_Unpack,
 * for random datatypes, counts, positions and lengths.  One process.
 *
 *     strided [TURNS [SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strided.h"

#include "mpi.h"

enum { AREA = 1 << 15, MIDDLE = AREA / 2 };

static char area[AREA], other[AREA], wanted[AREA], packed[AREA], got[AREA];
static int wrong, described, moved;

static int below(int limit) { return rand() % limit; }

static void expect(int right, const char *what, int turn)
{
    if (!right && wrong++ < 10)
        fprintf(stderr, "strided: turn %d: %s\n", turn, what);
}

static MPI_Datatype basic(void)
{
    static const MPI_Datatype types[] = { MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_LONG_DOUBLE,
                                          MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_C_DOUBLE_COMPLEX };
    return types[below(sizeof types / sizeof types[0])];
}

/** From a few elements to some dozens, of a few hundred bytes at most. */
static MPI_Datatype of(MPI_Datatype part)
{
    MPI_Datatype type;
    int lengths[3] = { 1 + below(2), 1 + below(2), 1 + below(2) }, places[3] = { 0, 2 + below(2), 4 + below(4) };
    int sizes[3] = { 3, 4, 5 }, some[3] = { 1 + below(3), 1 + below(4), 1 + below(5) };
    int starts[3] = { 0, 4 - some[1], below(6 - some[2]) };
    switch (below(6)) {
    case 0: MPI_Type_vector(1 + below(6), 1 + below(3), below(9) - 4 ? 3 + below(3) : -4, part, &type); break;
    case 1: MPI_Type_create_hvector(1 + below(6), 1 + below(2), 100 + below(9), part, &type); break;
    case 2: MPI_Type_contiguous(1 + below(4), part, &type); break;
    case 3: MPI_Type_indexed(3, lengths, places, part, &type); break;
    case 4: MPI_Type_create_resized(part, 0, 8 * (1 + below(40)), &type); break;
    default: MPI_Type_create_subarray(3, sizes, some, starts, MPI_ORDER_C, part, &type);
    }
    return type;
}

static MPI_Datatype make(void)
{
    MPI_Datatype part = basic(), type = of(part);
    if (below(2)) {
        part = type;
        type = of(part);
        MPI_Type_free(&part);
    }
    MPI_Type_commit(&type);
    return type;
}

/** Does it stay in an area, from its middle? */
static int fits(MPI_Datatype type, int count)
{
    MPI_Aint lb, extent, reach;
    MPI_Type_get_true_extent(type, &lb, &extent);
    MPI_Aint low = lb, high = lb + extent;
    MPI_Type_get_extent(type, &lb, &extent);
    reach = extent * (count - 1);
    return (low < 0 ? -low : 0) + (high > 0 ? high : 0) + (reach > 0 ? reach : -reach) < MIDDLE;
}

static void fill(char *to, int seed)
{
    for (int i = 0; i < AREA; i++)
        to[i] = (char)(i * 7 + i / 251 + seed);
}

static void pack_and_unpack(int turn, MPI_Datatype type, int count)
{
    struct strided s;
    int bytes, at = 0;
    MPI_Type_size(type, &bytes);
    bytes *= count;
    if (bytes == 0 || !strided_describe(&s, area + MIDDLE, (size_t)count, type))
        return;
    described++;
    expect(s.blocks * s.block_bytes == (size_t)bytes, "another size", turn);
    fill(area, turn);
    MPI_Pack(area + MIDDLE, count, type, packed, AREA, &at, MPI_COMM_SELF);
    int from = below(bytes), length = 1 + below(bytes - from);
    memset(got, 0, sizeof got);
    strided_pack(&s, (size_t)from, got + from, (size_t)length);
    expect(memcmp(got + from, packed + from, (size_t)length) == 0, "packed otherwise", turn);
    expect(got[from + length] == 0, "packed too much", turn);
    /* In two parts, which must be what MPI_Unpack writes, and nothing else. */
    fill(packed, turn + 1);
    fill(wanted, turn);
    at = 0;
    MPI_Unpack(packed, bytes, &at, wanted + MIDDLE, count, type, MPI_COMM_SELF);
    strided_unpack(&s, 0, packed, (size_t)from);
    strided_unpack(&s, (size_t)from, packed + from, (size_t)(bytes - from));
    expect(memcmp(area, wanted, AREA) == 0, "unpacked otherwise", turn);
}

static struct layout layout(char *address, int count, MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_true_extent(type, &lb, &extent);
    char *piece = ompi_datatype_is_contiguous_memory_layout(type, count) ? address + lb : NULL;
    return (struct layout){ address, (size_t)count, type, piece };
}

/** Of the same elements, or else only of as many as both have bytes. */
static void move(int turn, MPI_Datatype to, int to_count, MPI_Datatype from, int from_count)
{
    int give, take, at = 0;
    MPI_Type_size(from, &give);
    MPI_Type_size(to, &take);
    give *= from_count;
    take *= to_count;
    if (give != take || give == 0)
        return;
    struct layout target = layout(other + MIDDLE, to_count, to), source = layout(area + MIDDLE, from_count, from);
    if (target.piece && source.piece)
        return;
    fill(area, turn);
    fill(other, turn + 2);
    fill(wanted, turn + 2);
    if (!strided_move(&target, &source, (size_t)give))
        return;
    moved++;
    MPI_Pack(area + MIDDLE, from_count, from, packed, AREA, &at, MPI_COMM_SELF);
    at = 0;
    MPI_Unpack(packed, give, &at, wanted + MIDDLE, to_count, to, MPI_COMM_SELF);
    expect(memcmp(other, wanted, AREA) == 0, "moved otherwise", turn);
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 4000;
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    MPI_Init(&argc, &argv);
    for (int turn = 0; turn < turns; turn++) {
        MPI_Datatype type = make(), second = make(), bytes;
        int count = 1 + below(5), size, second_size;
        MPI_Type_size(type, &size);
        MPI_Type_size(second, &second_size);
        MPI_Type_contiguous(size * count, MPI_BYTE, &bytes);
        MPI_Type_commit(&bytes);
        if (fits(type, count)) {
            pack_and_unpack(turn, type, count);
            move(turn, type, count, bytes, 1);
            move(turn, bytes, 1, type, count);
            move(turn, type, count, type, count);
            if (size > 0 && second_size > 0 && fits(second, size) && fits(type, second_size))
                move(turn, second, size, type, second_size);
        }
        MPI_Type_free(&type);
        MPI_Type_free(&second);
        MPI_Type_free(&bytes);
    }
    expect(described >= turns / 10 && moved >= turns / 10, "few types were of blocks", turns);
    printf("strided: %d turns: %d of blocks, %d moved: %d wrong\n", turns, described, moved, wrong);
    MPI_Finalize();
    return wrong > 0;
}
