/*
 * ../halo.c by plain MPI: each rank has a halo, a cell at either side, which is filled by messages before each step.
 */
#include "../bar.h"
#include "job.h"

enum { CELLS = 100, STEPS = 300, LEFT = 0, RIGHT = CELLS + 1 };

/* The rank's part of the bar between its halo; beyond the bar that stays cold. */
static double heat[2][CELLS + 2];

static void fill_halo(double *cells)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&cells[LEFT + 1], 1, MPI_DOUBLE, left, 0, &cells[RIGHT], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&cells[RIGHT - 1], 1, MPI_DOUBLE, right, 1, &cells[LEFT], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static int is_right(const double *found)
{
    int right = 1;
    double *alone = bar_alone(ranks * CELLS, STEPS);
    for (int i = 0; i < ranks * CELLS; i++)
        right &= alone[i + 1] == found[i];
    free(alone);
    return right;
}

int main(void)
{
    job_begin();
    if (rank == 0)
        heat[0][1] = 100;
    for (int t = 0; t < STEPS; t++) {
        double *was = heat[t % 2], *is = heat[(t + 1) % 2];
        fill_halo(was);
        for (int i = 1; i <= CELLS; i++)
            is[i] = bar_step(was[i - 1], was[i], was[i + 1]);
    }
    job_done();
    double *all = calloc((size_t)ranks * CELLS, sizeof *all);
    MPI_Gather(&heat[STEPS % 2][1], CELLS, MPI_DOUBLE, all, CELLS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    int right = rank != 0 || is_right(all);
    free(all);
    return job_end("halo", right);
}
