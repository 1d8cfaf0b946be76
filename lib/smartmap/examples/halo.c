/*
 * Halo exchange without the exchange: heat in a bar that is divided among the ranks. A rank reads the last cells of its
 * neighbours where they are; there is no halo to be filled, and nothing to be sent.
 */
#include "job.h"

enum { CELLS = 100, STEPS = 300 };

/* The rank's part of the bar, at even steps and at odd ones: while one is read the other is written. */
static double heat[2][CELLS];

static double step(double left, double here, double right)
{
    return here + 0.25 * (left - 2 * here + right);
}

/* The cell beside the rank's own ones; beyond the bar it is cold. */
static double beside(int neighbour, int now, int cell)
{
    return neighbour < 0 || neighbour >= ranks ? 0 : (*OF(neighbour, heat))[now][cell];
}

/* What one rank alone computes. */
static int is_right(void)
{
    int cells = ranks * CELLS, right = 1;
    double *was = calloc((size_t)cells + 2, sizeof *was), *is = calloc((size_t)cells + 2, sizeof *is);
    was[1] = 100;
    for (int t = 0; t < STEPS; t++) {
        for (int i = 1; i <= cells; i++)
            is[i] = step(was[i - 1], was[i], was[i + 1]);
        double *swap = was;
        was = is;
        is = swap;
    }
    for (int i = 0; i < cells; i++)
        right &= was[i + 1] == (*OF(i / CELLS, heat))[STEPS % 2][i % CELLS];
    free(was);
    free(is);
    return right;
}

int main(void)
{
    job_begin();
    if (rank == 0)
        heat[0][0] = 100;
    job_meet();
    for (int t = 0; t < STEPS; t++) {
        const double *was = heat[t % 2];
        double *is = heat[(t + 1) % 2];
        for (int i = 0; i < CELLS; i++)
            is[i] = step(i > 0 ? was[i - 1] : beside(rank - 1, t % 2, CELLS - 1), was[i],
                         i < CELLS - 1 ? was[i + 1] : beside(rank + 1, t % 2, 0));
        job_meet();
    }
    job_done();
    return job_end("halo", rank != 0 || is_right());
}
