/*
 * A bar that conducts heat, as halo.c and its twin have it: how a cell follows from those beside it, and what becomes of a bar that
 * is hot at one end, computed by one rank alone.
 */
#ifndef EXAMPLES_BAR_H
#define EXAMPLES_BAR_H

#include <stdlib.h>

static double bar_step(double left, double here, double right)
{
    return here + 0.25 * (left - 2 * here + right);
}

/* After so many steps: cell 0 and the last one are beyond the bar, and stay cold. To be freed. */
static double *bar_alone(int cells, int steps)
{
    double *was = calloc((size_t)cells + 2, sizeof *was), *is = calloc((size_t)cells + 2, sizeof *is);
    was[1] = 100;
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i <= cells; i++)
            is[i] = bar_step(was[i - 1], was[i], was[i + 1]);
        double *swap = was;
        was = is;
        is = swap;
    }
    free(is);
    return was;
}

#endif
