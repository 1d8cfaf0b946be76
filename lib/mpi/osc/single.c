/*
 * One element of an accumulate, by an instruction of the CPU's.
 */
#include "osc_smartmap.h"

#include <string.h>

/** Elements of 1, 2, 4 and 8 bytes, where they belong in memory. */
bool single_suits(const ompi_datatype_t *type, const void *address)
{
    size_t bytes = type->super.size;
    return ompi_datatype_is_predefined(type) && bytes <= 8 && (1 << bytes & 0x116) != 0 &&
           (ptrdiff_t)bytes == type->super.ub - type->super.lb &&
           ((uintptr_t)address & (bytes - 1)) == 0;
}

/** Does `how` with a type as long as the element. */
#define BY_SIZE(bytes, how)           \
    switch (bytes) {                  \
    case 1: return how(uint8_t);      \
    case 2: return how(uint16_t);     \
    case 4: return how(uint32_t);     \
    default: return how(uint64_t);    \
    }

#define LOAD(type) __atomic_load_n((const type *)target, __ATOMIC_SEQ_CST)
static uint64_t load(const void *target, size_t bytes)
{
    BY_SIZE(bytes, LOAD)
}

#define EXCHANGE(type) __atomic_exchange_n((type *)target, (type)value, __ATOMIC_SEQ_CST)
static uint64_t exchange(void *target, uint64_t value, size_t bytes)
{
    BY_SIZE(bytes, EXCHANGE)
}

#define ADD(type) __atomic_fetch_add((type *)target, (type)value, __ATOMIC_SEQ_CST)
static uint64_t add(void *target, uint64_t value, size_t bytes)
{
    BY_SIZE(bytes, ADD)
}

#define SWAP(type)                                                                       \
    ({                                                                                   \
        type expected_ = (type)*expected;                                                \
        bool swapped_ = __atomic_compare_exchange_n((type *)target, &expected_, (type)value, \
                                                    0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        *expected = expected_;                                                           \
        swapped_;                                                                        \
    })
/** Replaces what is `expected`, or returns what there is instead. */
static bool swap(void *target, uint64_t *expected, uint64_t value, size_t bytes)
{
    BY_SIZE(bytes, SWAP)
}

#define TAKE(type) ({ type value_; memcpy(&value_, from, sizeof value_); value_; })
/** What the user's buffer has, wherever it lies. */
static uint64_t take(const void *from, size_t bytes)
{
    BY_SIZE(bytes, TAKE)
}

#define GIVE(type) (void)memcpy(to, &(type){ (type)value }, sizeof(type))
static void give(void *to, uint64_t value, size_t bytes)
{
    BY_SIZE(bytes, GIVE)
}

/** By Open MPI's function, which takes as long as all the rest; the most frequent sum without it. */
static uint64_t combine(ompi_op_t *op, uint64_t value, uint64_t before, ompi_datatype_t *type)
{
    if (op == &ompi_mpi_op_sum.op && type == &ompi_mpi_double.dt) {
        union { uint64_t bits; double number; } sum = { before }, added = { value };
        sum.number += added.number;
        return sum.bits;
    }
    ompi_op_reduce(op, &value, &before, 1, type);
    return before;
}

/** `result` may be NULL; `origin` may for MPI_NO_OP. */
void single_fetch_and_op(const void *origin, void *result, void *target, ompi_datatype_t *type,
                         ompi_op_t *op)
{
    size_t bytes = type->super.size;
    uint64_t before, value = op == &ompi_mpi_op_no_op.op ? 0 : take(origin, bytes);
    if (op == &ompi_mpi_op_no_op.op) {
        before = load(target, bytes);
    } else if (op == &ompi_mpi_op_replace.op) {
        before = exchange(target, value, bytes);
    } else if (op == &ompi_mpi_op_sum.op &&
               (type->super.flags & OMPI_DATATYPE_FLAG_DATA_TYPE) == OMPI_DATATYPE_FLAG_DATA_INT) {
        before = add(target, value, bytes);
    } else {
        before = load(target, bytes);
        while (!swap(target, &before, combine(op, value, before, type), bytes))
            ;
    }
    if (result)
        give(result, before, bytes);
}

void single_compare_and_swap(const void *origin, const void *compare, void *result, void *target,
                             size_t bytes)
{
    uint64_t before = take(compare, bytes);
    swap(target, &before, take(origin, bytes), bytes);
    give(result, before, bytes);
}
