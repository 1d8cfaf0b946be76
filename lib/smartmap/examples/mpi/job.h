/*
 * What the twins need besides mpi.h: as ../job.h, by plain MPI.
 */
#ifndef EXAMPLES_MPI_JOB_H
#define EXAMPLES_MPI_JOB_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;
static double job_us;

static void job_begin(void)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    job_us = MPI_Wtime() * 1e6;
}

/* All have done their work: what follows only checks it. */
static void job_done(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    job_us = MPI_Wtime() * 1e6 - job_us;
}

/* Returns the program's status. */
static int job_end(const char *name, int is_right)
{
    int all_right;
    MPI_Allreduce(&is_right, &all_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s, %.0f us\n", name, all_right ? "right" : "WRONG", job_us);
    MPI_Finalize();
    return !all_right;
}

#endif
