/*
 * Halo exchange without the exchange: heat in a bar that is divided among the ranks. A rank reads the last cells of its
 * neighbours where they are; there is no halo to be filled, and nothing to be sent.
 */
#include "bar.h"
#include "job.h"

enum { CELLS = 100, STEPS = 300 };

/* The rank's part of the bar, at even steps and at odd ones: while one is read the other is written. */
static double heat[2][CELLS];

/* The cell beside the rank's own ones; beyond the bar it is cold. */
static double beside(int neighbour, int now, int cell)
{
    return neighbour < 0 || neighbour >= ranks ? 0 : (*OF(neighbour, heat))[now][cell];
}

static int is_right(void)
{
    int right = 1;
    double *alone = bar_alone(ranks * CELLS, STEPS);
    for (int i = 0; i < ranks * CELLS; i++)
        right &= alone[i + 1] == (*OF(i / CELLS, heat))[STEPS % 2][i % CELLS];
    free(alone);
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
            is[i] = bar_step(i > 0 ? was[i - 1] : beside(rank - 1, t % 2, CELLS - 1), was[i],
                             i < CELLS - 1 ? was[i + 1] : beside(rank + 1, t % 2, 0));
        job_meet();
    }
    job_done();
    return job_end("halo", rank != 0 || is_right());
}
