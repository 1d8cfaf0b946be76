/*
 * What one-sided operations do, computed by each rank alone: part of rma.c.
 *
 * An item is an operation, repeated if it accumulates, on a range of a target's
 * part of the window that no other item of its round uses.  All ranks draw the
 * same items.  Memory begins with a pattern, so whoever knows the item knows
 * what the range holds before and after, and what was fetched.
 */
#ifndef RMA_H
#define RMA_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 24, MAX_ELEMENTS = 600, MAX_ELEMENT_BYTES = 32, MAX_REPEATS = 3, ALIGN = 32 };
enum { BUFFER_BYTES = 3 * MAX_ELEMENTS * MAX_ELEMENT_BYTES };
enum kind { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, KINDS };
enum layout { PLAIN, CONTIGUOUS, EVERY_SECOND, SWAPPED_PAIRS, RESIZED, LAYOUTS };

struct item {
    int origin, target, kind, type, op, elements, repeats, by_request;
    int from, to, result; /* layouts, of the origin, the target and what is fetched */
    MPI_Aint offset;      /* in the target's part, bytes */
    char *data[MAX_REPEATS], *fetched[MAX_REPEATS]; /* at the origin */
};

/* MPI 4.0, 6.9.2: the groups of datatypes, and what each group allows. */
enum { INTEGERS = 1, REALS = 2, LOGICALS = 4, COMPLEX = 8, BYTES = 16, PAIRS = 32, ANY = 63 };

static const struct {
    MPI_Datatype type;
    int group;
} types[] = {
    { MPI_SIGNED_CHAR, INTEGERS }, { MPI_UNSIGNED_SHORT, INTEGERS }, { MPI_INT, INTEGERS },
    { MPI_UINT64_T, INTEGERS }, { MPI_INT64_T, INTEGERS }, { MPI_AINT, INTEGERS },
    { MPI_BYTE, BYTES }, { MPI_C_BOOL, LOGICALS }, { MPI_FLOAT, REALS }, { MPI_DOUBLE, REALS },
    { MPI_LONG_DOUBLE, REALS }, { MPI_C_FLOAT_COMPLEX, COMPLEX },
    { MPI_C_DOUBLE_COMPLEX, COMPLEX }, { MPI_2INT, PAIRS }, { MPI_SHORT_INT, PAIRS },
    { MPI_FLOAT_INT, PAIRS }, { MPI_DOUBLE_INT, PAIRS }, { MPI_LONG_INT, PAIRS },
};
static const struct {
    MPI_Op op;
    int groups;
} ops[] = {
    { MPI_REPLACE, ANY }, { MPI_NO_OP, ANY }, { MPI_SUM, INTEGERS | REALS | COMPLEX },
    { MPI_PROD, INTEGERS | REALS | COMPLEX }, { MPI_MAX, INTEGERS | REALS },
    { MPI_MIN, INTEGERS | REALS }, { MPI_LAND, INTEGERS | LOGICALS },
    { MPI_LOR, INTEGERS | LOGICALS }, { MPI_LXOR, INTEGERS | LOGICALS },
    { MPI_BAND, INTEGERS | BYTES }, { MPI_BOR, INTEGERS | BYTES },
    { MPI_BXOR, INTEGERS | BYTES }, { MPI_MAXLOC, PAIRS }, { MPI_MINLOC, PAIRS },
};
enum { TYPES = sizeof types / sizeof *types, OPS = sizeof ops / sizeof *ops };

static uint64_t state;

static int draw(int below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)below);
}

static MPI_Aint extent_of(int type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(types[type].type, &lb, &extent);
    return extent;
}

/** Where element i is, in elements. */
static int place_of(int layout, int i)
{
    return layout == EVERY_SECOND ? 2 * i : layout == SWAPPED_PAIRS ? i ^ 1
                                          : layout == RESIZED ? 3 * i : i;
}

static MPI_Aint range_bytes(const struct item *t)
{
    int times = t->to == RESIZED ? 3 : t->to == EVERY_SECOND ? 2 : 1;
    return (MPI_Aint)times * (t->elements + 1) * extent_of(t->type);
}

/** `count` of the type returned are `elements` in a layout. */
static MPI_Datatype derive(int layout, int type, int elements, int *count)
{
    MPI_Datatype derived = types[type].type, plain = derived;
    int places[MAX_ELEMENTS];
    *count = layout == PLAIN || layout == RESIZED ? elements : 1;
    for (int i = 0; i < elements; i++)
        places[i] = place_of(layout, i);
    switch (layout) {
    case PLAIN: return plain;
    case CONTIGUOUS: MPI_Type_contiguous(elements, plain, &derived); break;
    case EVERY_SECOND: MPI_Type_vector(elements, 1, 2, plain, &derived); break;
    case SWAPPED_PAIRS:
        MPI_Type_create_indexed_block(elements, 1, places, plain, &derived);
        break;
    case RESIZED: MPI_Type_create_resized(plain, 0, 3 * extent_of(type), &derived);
    }
    MPI_Type_commit(&derived);
    return derived;
}

static void forget(int layout, MPI_Datatype *type)
{
    if (layout != PLAIN)
        MPI_Type_free(type);
}

/**
 * A small whole number in each half, so that results are exact, never NaN, and
 * never overflow (Open MPI's vector operations saturate, its others wrap).
 */
static void fill_element(char *to, int type, int value)
{
    static const int exact = 5;
    float f[2] = { (float)(value % exact), (float)(value / 7 % exact) };
    double d[2] = { f[0], f[1] };
    long double l = f[0];
    int halves[2] = { value % exact, value / 7 % exact };
    MPI_Datatype t = types[type].type;
    memset(to, 0, (size_t)extent_of(type));
    if (t == MPI_FLOAT || t == MPI_C_FLOAT_COMPLEX) {
        memcpy(to, f, (size_t)extent_of(type));
    } else if (t == MPI_DOUBLE || t == MPI_C_DOUBLE_COMPLEX) {
        memcpy(to, d, (size_t)extent_of(type));
    } else if (t == MPI_LONG_DOUBLE) {
        memcpy(to, &l, 10); /* the rest is padding */
    } else if (t == MPI_FLOAT_INT || t == MPI_DOUBLE_INT) {
        memcpy(to, t == MPI_FLOAT_INT ? (void *)f : d, t == MPI_FLOAT_INT ? 4 : 8);
        memcpy(to + extent_of(type) / 2, &halves[1], sizeof halves[1]);
    } else if (types[type].group == PAIRS) {
        memcpy(to, &halves[0], t == MPI_SHORT_INT ? 2 : 4);
        memcpy(to + extent_of(type) / 2, &halves[1], sizeof halves[1]);
    } else {
        to[0] = (char)(value % (types[type].group == LOGICALS ? 2 : extent_of(type) == 1 ? 3 : 15));
    }
}

/** Are two elements the same, whatever lies in gaps? */
static int same_element(const char *a, const char *b, int type)
{
    MPI_Datatype t = types[type].type;
    MPI_Aint extent = extent_of(type);
    if (t == MPI_LONG_DOUBLE)
        return memcmp(a, b, 10) == 0;
    if (types[type].group != PAIRS)
        return memcmp(a, b, (size_t)extent) == 0;
    size_t first = t == MPI_SHORT_INT ? 2 : (size_t)extent / 2;
    return memcmp(a, b, first) == 0 && memcmp(a + extent / 2, b + extent / 2, sizeof(int)) == 0;
}

/** What a target's memory holds at first, for element i of an item. */
static void initial_element(char *to, const struct item *t, int i)
{
    fill_element(to, t->type, (int)(t->offset % 1009) + 3 * i + t->target);
}

/** What the origin gives in a repeat; of MPI_Compare_and_swap what it compares with, too. */
static void given_element(char *to, const struct item *t, int repeat, int i)
{
    fill_element(to, t->type, (int)(t->offset % 997) + 5 * i + 11 * repeat + t->origin + 1);
}

/** What CAS compares with: in every second repeat what is there. */
static void compared_element(char *to, const struct item *t, int repeat, const char *there)
{
    memcpy(to, there, (size_t)extent_of(t->type));
    to[0] = (char)(to[0] + repeat % 2);
}

/** Do an item's repeat on an element; `there` becomes what is there after it. */
static void do_element(const struct item *t, int repeat, int i, char *there)
{
    char given[MAX_ELEMENT_BYTES], compared[MAX_ELEMENT_BYTES];
    size_t bytes = (size_t)extent_of(t->type);
    MPI_Op op = ops[t->op].op;
    given_element(given, t, repeat, i);
    if (t->kind == GET || (t->kind != PUT && t->kind != COMPARE_AND_SWAP && op == MPI_NO_OP))
        return;
    if (t->kind == COMPARE_AND_SWAP) {
        compared_element(compared, t, repeat, there);
        if (memcmp(compared, there, bytes) == 0)
            memcpy(there, given, bytes);
    } else if (t->kind == PUT || op == MPI_REPLACE) {
        memcpy(there, given, bytes);
    } else {
        MPI_Reduce_local(given, there, 1, types[t->type].type, op);
    }
}

#endif
