// Derived datatypes: what is sent of one layout arrives in another, packed or not; what is known about a type.
#include "conform.h"

#include <stddef.h>

enum { ROWS = 60, COLUMNS = 50, CELLS = ROWS * COLUMNS, HOLE = -9 };
static int out[CELLS], in[CELLS];

// Sends one element of a type around as plain integers; whether those that `is_in` names arrive, in their order.
static int sent_as(MPI_Datatype type, int (*is_in)(int))
{
    int expected = 0, right = 1, got = -1, bytes;
    MPI_Status status;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &bytes);
    fill(out, CELLS, rank);
    MPI_Sendrecv(out, 1, type, next, 1, in, CELLS, MPI_INT, last, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    for (int i = 0; i < CELLS; i++)
        if (is_in(i))
            right &= in[expected++] == value(last, i);
    right &= got == expected && bytes == expected * (int)sizeof(int);
    // The other way: into the layout, and nothing else is touched.
    for (int i = 0; i < CELLS; i++)
        in[i] = HOLE;
    int *plain = malloc(sizeof out);
    expected = 0;
    for (int i = 0; i < CELLS; i++)
        if (is_in(i))
            plain[expected++] = value(rank, i);
    MPI_Sendrecv(plain, expected, MPI_INT, next, 2, in, 1, type, last, 2, MPI_COMM_WORLD, &status);
    for (int i = 0; i < CELLS; i++)
        right &= in[i] == (is_in(i) ? value(last, i) : HOLE);
    // Packed by the sender, unpacked by the receiver.
    int room, position = 0;
    MPI_Pack_size(1, type, MPI_COMM_WORLD, &room);
    char *packed = malloc(room), *arrived = malloc(room);
    MPI_Pack(out, 1, type, packed, room, &position, MPI_COMM_WORLD);
    MPI_Sendrecv(packed, position, MPI_PACKED, next, 3, arrived, room, MPI_PACKED, last, 3, MPI_COMM_WORLD, &status);
    memset(in, 0, sizeof in);
    position = 0;
    MPI_Unpack(arrived, room, &position, in, 1, type, MPI_COMM_WORLD);
    for (int i = 0; i < CELLS; i++)
        right &= in[i] == (is_in(i) ? value(last, i) : 0);
    free(plain);
    free(packed);
    free(arrived);
    MPI_Type_free(&type);
    return right;
}

static int in_column(int i) { return i % COLUMNS == 0; }
static int in_pairs(int i) { return i % COLUMNS < 2 && i / COLUMNS < 40; }
static int in_steps(int i) { return i < 300 && i % 3 == 0; }
static int in_blocks(int i) { return (i >= 2 && i < 5) || i == 10 || (i >= 100 && i < 700); }
static int in_inner(int i)
{
    int row = i / COLUMNS, column = i % COLUMNS;
    return row >= 5 && row < 45 && column >= 10 && column < 30;
}
static int in_all(int i) { return i >= 0; }

static void layouts(void)
{
    MPI_Datatype type, inner;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &type);
    agree(sent_as(type, in_column), "vector");
    MPI_Type_create_hvector(40, 2, COLUMNS * sizeof(int), MPI_INT, &type);
    agree(sent_as(type, in_pairs), "hvector");
    int three[] = {3, 1, 600}, where[] = {2, 10, 100};
    MPI_Type_indexed(3, three, where, MPI_INT, &type);
    agree(sent_as(type, in_blocks), "indexed");
    MPI_Aint bytes[] = {8, 40, 400};
    MPI_Type_create_hindexed(3, three, bytes, MPI_INT, &type);
    agree(sent_as(type, in_blocks), "hindexed");
    int steps[100];
    for (int i = 0; i < 100; i++)
        steps[i] = 3 * i;
    MPI_Type_create_indexed_block(100, 1, steps, MPI_INT, &type);
    agree(sent_as(type, in_steps), "indexed_block");
    int whole[] = {ROWS, COLUMNS}, part[] = {40, 20}, start[] = {5, 10};
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &type);
    agree(sent_as(type, in_inner), "subarray");
    MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &inner);
    MPI_Type_contiguous(100, inner, &type);
    agree(sent_as(type, in_steps), "resized and contiguous");
    MPI_Type_free(&inner);
    MPI_Type_contiguous(CELLS, MPI_INT, &inner);
    MPI_Type_dup(inner, &type);
    MPI_Type_free(&inner);
    agree(sent_as(type, in_all), "dup");
    MPI_Datatype kinds[] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Type_create_struct(3, three, bytes, kinds, &type);
    agree(sent_as(type, in_blocks), "struct");
}

struct particle {
    char kind;
    double place[3];
    short charge;
    long number;
};

static void structures(void)
{
    enum { MANY = 3000 };
    int lengths[] = {1, 3, 1, 1}, right = 1;
    MPI_Aint where[] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                        offsetof(struct particle, charge), offsetof(struct particle, number)};
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_LONG}, bare, type;
    MPI_Type_create_struct(4, lengths, where, kinds, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    struct particle *mine = calloc(MANY, sizeof *mine), *its = calloc(MANY, sizeof *its);
    for (int i = 0; i < MANY; i++)
        mine[i] = (struct particle){(char)i, {i, 2.0 * i, rank}, (short)-i, 1000000000L * i + rank};
    MPI_Sendrecv(mine, MANY, type, next, 4, its, MANY, type, last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++)
        right &= its[i].kind == (char)i && its[i].place[1] == 2.0 * i && its[i].place[2] == last
            && its[i].charge == (short)-i && its[i].number == 1000000000L * i + last;
    agree(right, "structures with holes");
    MPI_Aint low, extent;
    int integers, addresses, types, combiner;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_envelope(bare, &integers, &addresses, &types, &combiner);
    agree(low == 0 && extent == sizeof(struct particle) && integers == 5 && addresses == 4 && types == 4
              && combiner == MPI_COMBINER_STRUCT,
          "extent and envelope");
    MPI_Status status;
    int elements = -1, count = -1;
    MPI_Sendrecv(mine, 7, type, next, 5, its, MANY, type, last, 5, MPI_COMM_WORLD, &status);
    MPI_Get_elements(&status, type, &elements);
    MPI_Get_count(&status, type, &count);
    agree(count == 7 && elements == 7 * 6, "counts of structures and of their elements");
    MPI_Type_free(&bare);
    MPI_Type_free(&type);
    free(mine);
    free(its);
}

static void external(void)
{
    MPI_Aint room, position = 0;
    double numbers[] = {1.5, -2.25}, again[2] = {0};
    MPI_Pack_external_size("external32", 2, MPI_DOUBLE, &room);
    unsigned char packed[64];
    MPI_Pack_external("external32", numbers, 2, MPI_DOUBLE, packed, sizeof packed, &position);
    int big_endian = packed[0] == 0x3f && packed[1] == 0xf8 && packed[8] == 0xc0 && packed[9] == 0x02;
    position = 0;
    MPI_Unpack_external("external32", packed, sizeof packed, &position, again, 2, MPI_DOUBLE);
    agree(room == 16 && big_endian && again[0] == 1.5 && again[1] == -2.25, "external32");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    layouts();
    structures();
    external();
    return end();
}
