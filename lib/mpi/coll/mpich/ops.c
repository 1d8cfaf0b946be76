/*
 * PMPI_Reduce_local knows all datatypes and operations, but takes two buffers, so
 * that the last operand has to be copied first, and is called through for each
 * block.  What programs reduce most is folded here, by loops that the compiler
 * vectorises (the Makefile sets -O3).  Integers wrap around, as in MPICH.
 */
#include "ops.h"

#include <stdint.h>

#define FOLD(op, kind, type, expression)                                                  \
    static void op##_##kind(const void *a, const void *b, void *to, size_t count)         \
    {                                                                                     \
        const type *p = a, *q = b;                                                        \
        type *r = to;                                                                     \
        _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)                           \
        {                                                                                 \
            type x = p[i], y = q[i];                                                      \
            r[i] = (type)(expression);                                                    \
        }                                                                                 \
    }

#define INTEGERS(X) \
    X(I8, int8_t, uint8_t) X(I16, int16_t, uint16_t) X(I32, int32_t, uint32_t) \
    X(I64, int64_t, uint64_t) X(U8, uint8_t, uint8_t) X(U16, uint16_t, uint16_t) \
    X(U32, uint32_t, uint32_t) X(U64, uint64_t, uint64_t)
#define FLOATS(X) X(F32, float, float) X(F64, double, double)

/** `wrapping` is the type in which sums do not overflow; 16 bits are multiplied as int. */
#define ARITHMETIC(kind, type, wrapping)              \
    FOLD(sum, kind, wrapping, x + y)                  \
    FOLD(prod, kind, wrapping, 1u * x * y)            \
    FOLD(max, kind, type, x > y ? x : y)              \
    FOLD(min, kind, type, x < y ? x : y)
#define BITWISE(kind, type, wrapping)                 \
    FOLD(band, kind, wrapping, x &y)                  \
    FOLD(bor, kind, wrapping, x | y)                  \
    FOLD(bxor, kind, wrapping, x ^ y)
INTEGERS(ARITHMETIC)
FLOATS(ARITHMETIC)
INTEGERS(BITWISE)

enum operation { SUM, PROD, MAX, MIN, BAND, BOR, BXOR, OPERATIONS };

static ops_fold *const folds[OPERATIONS][KINDS] = {
#define ROW(kind, ...) \
    [SUM][kind] = sum_##kind, [PROD][kind] = prod_##kind, [MAX][kind] = max_##kind, [MIN][kind] = min_##kind,
    INTEGERS(ROW) FLOATS(ROW)
#undef ROW
#define ROW(kind, ...) [BAND][kind] = band_##kind, [BOR][kind] = bor_##kind, [BXOR][kind] = bxor_##kind,
    INTEGERS(ROW)
#undef ROW
};

/** MPI has several names for a type of C; in MPICH's ABI each is a handle of its own. */
enum kind ops_kind(MPI_Datatype type)
{
    static const struct {
        MPI_Datatype type;
        enum kind kind;
    } kinds[] = {
        { MPI_SIGNED_CHAR, I8 }, { MPI_INT8_T, I8 }, { MPI_SHORT, I16 }, { MPI_INT16_T, I16 },
        { MPI_INT, I32 }, { MPI_INT32_T, I32 }, { MPI_INTEGER, I32 }, { MPI_LONG, I64 },
        { MPI_LONG_LONG, I64 }, { MPI_INT64_T, I64 }, { MPI_UNSIGNED_CHAR, U8 },
        { MPI_UINT8_T, U8 }, { MPI_UNSIGNED_SHORT, U16 }, { MPI_UINT16_T, U16 },
        { MPI_UNSIGNED, U32 }, { MPI_UINT32_T, U32 }, { MPI_UNSIGNED_LONG, U64 },
        { MPI_UNSIGNED_LONG_LONG, U64 }, { MPI_UINT64_T, U64 }, { MPI_FLOAT, F32 },
        { MPI_REAL, F32 }, { MPI_DOUBLE, F64 }, { MPI_DOUBLE_PRECISION, F64 },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].type == type)
            return kinds[i].kind;
    return KIND_OTHER;
}

ops_fold *ops_find(MPI_Op op, enum kind kind)
{
    switch (op) {
    case MPI_SUM: return folds[SUM][kind];
    case MPI_PROD: return folds[PROD][kind];
    case MPI_MAX: return folds[MAX][kind];
    case MPI_MIN: return folds[MIN][kind];
    case MPI_BAND: return folds[BAND][kind];
    case MPI_BOR: return folds[BOR][kind];
    case MPI_BXOR: return folds[BXOR][kind];
    default: return NULL;
    }
}
