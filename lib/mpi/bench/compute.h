/*
 * What kernels.c computes between its messages.  It is compiled once, and the same
 * machine code is in the programs of all MPIs: where a compiler happens to put a
 * loop is worth up to a fifth of its time, which would else be taken for theirs.
 */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEYS = 1 << 16 };

/** A cube of n^3 points in a frame; a plane has (n + 2)^2. */
struct cube {
    int n;
    size_t plane;
    double *x, *r, *p, *q;
};

/** r = p = values that differ by rank; r . r. */
double cube_fill(const struct cube *c, int rank);
/** q = A p; p . q. */
double cube_apply(const struct cube *c);
/** x += alpha p, r -= alpha q; r . r. */
double cube_advance(const struct cube *c, double alpha);
/** p = r + beta p. */
void cube_turn(const struct cube *c, double beta);

void values_fill(double *values, int n, int first);
void values_add_one(double *values, int n);

/** One line of n numbers, a power of two, with the n-th roots of one. */
void line_transform(double complex *line, int n, const double complex *roots, bool back);
/** So many lines of n by blocks of columns, each transposed; and blocks that were got from all into lines. */
void lines_to_blocks(const double complex *lines, int count, int n, double complex *blocks);
void blocks_to_lines(const double complex *blocks, int count, int n, double complex *lines);
void numbers_divide(double complex *numbers, size_t count, double by);

/** n keys below KEYS, and how many are in each range of that width. */
void keys_draw(int32_t *keys, int n, int width, uint64_t *random, int *counts);
/** Each to the next place of its range. */
void keys_deal(const int32_t *keys, int n, int width, int *places, int32_t *dealt);
/** Sorts keys of first up to first + width. */
void keys_sort(int32_t *keys, int n, int first, int width);

/** How many of n random points of a square are in the circle. */
int points_inside(int n, uint64_t *random);

#endif
