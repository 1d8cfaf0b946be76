/*
 * Every predefined operation on every predefined datatype that MPI allows:
 * MPI_Allreduce, MPI_Reduce and MPI_Scan must give, bit for bit, what
 * MPI_Reduce_local gives when this program folds all operands itself.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 5, LARGE = 6000, MAX_RANKS = 64, ELEMENT_BYTES = 32 };

static int rank, size, wrong, pairs;
static char *operands[MAX_RANKS], *want, *got;

/** Small whole numbers; as floating point they are denormal, and sums exact. */
static void fill(char *to, MPI_Datatype type, int count, int id)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    memset(to, 0, (size_t)(count * extent));
    for (int i = 0; i < count; i++) {
        to[i * extent] = (char)((id * 7 + i * 3) % (type == MPI_C_BOOL ? 2 : 23));
        if (extent >= 8 && type != MPI_LONG_DOUBLE) /* a pair's or complex's other half */
            to[i * extent + extent / 2] = (char)((id + i) % 5);
    }
}

static void fold(MPI_Datatype type, MPI_Op op, int count, size_t bytes, int last)
{
    memcpy(want, operands[last], bytes);
    for (int r = last - 1; r >= 0; r--)
        MPI_Reduce_local(operands[r], want, count, type, op);
}

static void judge(const char *what, int operation, int datatype, size_t bytes)
{
    if (memcmp(want, got, bytes) != 0 && wrong++ < 5)
        fprintf(stderr, "rank %d: %s: operation %d on datatype %d differs\n", rank, what,
                operation, datatype);
}

static void check(MPI_Datatype type, MPI_Op op, int count, int operation, int datatype)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    size_t bytes = (size_t)(count * extent);
    for (int r = 0; r < size; r++)
        fill(operands[r], type, count, r);
    fill(want, type, count, 0);
    pairs++;
    fold(type, op, count, bytes, size - 1);
    memset(got, 0, bytes);
    MPI_Allreduce(operands[rank], got, count, type, op, MPI_COMM_WORLD);
    judge("allreduce", operation, datatype, bytes);
    memset(got, 0, bytes);
    MPI_Reduce(operands[rank], got, count, type, op, operation % size, MPI_COMM_WORLD);
    if (rank == operation % size)
        judge("reduce", operation, datatype, bytes);
    fold(type, op, count, bytes, rank);
    memset(got, 0, bytes);
    MPI_Scan(operands[rank], got, count, type, op, MPI_COMM_WORLD);
    judge("scan", operation, datatype, bytes);
}

/* MPI 4.0, 6.9.2: the groups of datatypes, and what each group allows. */
enum { INTEGERS = 1, FORTRAN = 2, REALS = 4, LOGICALS = 8, COMPLEX = 16, BYTES = 32, PAIRS = 64 };
enum { ORDERED = INTEGERS | FORTRAN | REALS, BITS = INTEGERS | FORTRAN | BYTES };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct {
        MPI_Datatype type;
        int group;
    } types[] = {
        { MPI_SIGNED_CHAR, INTEGERS }, { MPI_UNSIGNED_CHAR, INTEGERS }, { MPI_SHORT, INTEGERS },
        { MPI_UNSIGNED_SHORT, INTEGERS }, { MPI_INT, INTEGERS }, { MPI_UNSIGNED, INTEGERS },
        { MPI_LONG, INTEGERS }, { MPI_UNSIGNED_LONG, INTEGERS }, { MPI_LONG_LONG, INTEGERS },
        { MPI_UNSIGNED_LONG_LONG, INTEGERS }, { MPI_INT8_T, INTEGERS },
        { MPI_INT16_T, INTEGERS }, { MPI_INT32_T, INTEGERS }, { MPI_INT64_T, INTEGERS },
        { MPI_UINT8_T, INTEGERS }, { MPI_UINT16_T, INTEGERS }, { MPI_UINT32_T, INTEGERS },
        { MPI_UINT64_T, INTEGERS }, { MPI_FLOAT, REALS }, { MPI_DOUBLE, REALS },
        { MPI_LONG_DOUBLE, REALS }, { MPI_C_BOOL, LOGICALS }, { MPI_C_FLOAT_COMPLEX, COMPLEX },
        { MPI_C_DOUBLE_COMPLEX, COMPLEX }, { MPI_BYTE, BYTES }, { MPI_AINT, FORTRAN },
        { MPI_OFFSET, FORTRAN }, { MPI_COUNT, FORTRAN }, { MPI_FLOAT_INT, PAIRS },
        { MPI_DOUBLE_INT, PAIRS }, { MPI_LONG_INT, PAIRS }, { MPI_2INT, PAIRS },
        { MPI_SHORT_INT, PAIRS }, { MPI_INTEGER, FORTRAN }, { MPI_REAL, REALS },
        { MPI_DOUBLE_PRECISION, REALS }, { MPI_COMPLEX, COMPLEX }, { MPI_LOGICAL, LOGICALS },
    };
    struct {
        MPI_Op op;
        int groups;
    } ops[] = {
        { MPI_MAX, ORDERED }, { MPI_MIN, ORDERED }, { MPI_SUM, ORDERED | COMPLEX },
        { MPI_PROD, ORDERED | COMPLEX }, { MPI_LAND, INTEGERS | LOGICALS },
        { MPI_LOR, INTEGERS | LOGICALS }, { MPI_LXOR, INTEGERS | LOGICALS },
        { MPI_BAND, BITS }, { MPI_BOR, BITS }, { MPI_BXOR, BITS },
        { MPI_MAXLOC, PAIRS }, { MPI_MINLOC, PAIRS },
    };
    for (int r = 0; r < size; r++)
        operands[r] = malloc(LARGE * ELEMENT_BYTES);
    want = malloc(LARGE * ELEMENT_BYTES);
    got = malloc(LARGE * ELEMENT_BYTES);
    for (int t = 0; t < (int)(sizeof types / sizeof *types); t++)
        for (int o = 0; o < (int)(sizeof ops / sizeof *ops); o++) {
            if (!(types[t].group & ops[o].groups))
                continue;
            check(types[t].type, ops[o].op, SMALL, o, t);
            check(types[t].type, ops[o].op, LARGE, o, t);
        }
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("types: %d ranks, %d pairs: %d wrong\n", size, pairs / 2, all);
    MPI_Finalize();
    return all != 0;
}
