/*
 * tiles: an application in small.  Each rank has a tile of a periodic grid, and
 * in every step puts its borders into its neighbours' halos: rows, and columns
 * as a derived datatype, in epochs of MPI_Win_fence or of post, start, complete
 * and wait.  Then ranks draw jobs from a counter in rank 0's window, and add each
 * job's sums to the others' results.  One rank alone computes the same bits.
 *
 *     tiles [allocate | create]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 48, WIDTH = EDGE + 2, STEPS = 40, JOBS = 200, BINS = 16 };

static int rank, size;
static double (*tile)[WIDTH], (*next)[WIDTH];

static double first(int r, int y, int x) { return (r * 31 + y * 7 + x * 3) % 64; }

static void fill(int r, double (*t)[WIDTH])
{
    for (int y = 1; y <= EDGE; y++)
        for (int x = 1; x <= EDGE; x++)
            t[y][x] = first(r, y, x);
}

static void relax(double (*from)[WIDTH], double (*to)[WIDTH])
{
    for (int y = 1; y <= EDGE; y++)
        for (int x = 1; x <= EDGE; x++)
            to[y][x] = (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]) / 4;
}

static MPI_Aint at(int y, int x) { return y * WIDTH + x; }

/** The grid is a row of tiles, each its own neighbour above and below. */
static void put_borders(MPI_Win win, MPI_Datatype column)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Put(&tile[1][1], 1, column, left, at(1, EDGE + 1), 1, column, win);
    MPI_Put(&tile[1][EDGE], 1, column, right, at(1, 0), 1, column, win);
    MPI_Put(&tile[1][1], EDGE, MPI_DOUBLE, rank, at(EDGE + 1, 1), EDGE, MPI_DOUBLE, win);
    MPI_Put(&tile[EDGE][1], EDGE, MPI_DOUBLE, rank, at(0, 1), EDGE, MPI_DOUBLE, win);
}

static void exchange(MPI_Win win, MPI_Datatype column, MPI_Group neighbours, int step)
{
    if (step % 2) {
        MPI_Win_post(neighbours, 0, win);
        MPI_Win_start(neighbours, 0, win);
        put_borders(win, column);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    } else {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        put_borders(win, column);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    }
}

/** The whole grid by one rank: what this rank's tile must become. */
static double (*alone(void))[WIDTH]
{
    double (*all)[WIDTH][WIDTH] = calloc((size_t)size, sizeof *all);
    double (*after)[WIDTH] = calloc((size_t)size, sizeof *all);
    for (int r = 0; r < size; r++)
        fill(r, all[r]);
    for (int step = 0; step < STEPS; step++) {
        for (int r = 0; r < size; r++)
            for (int i = 1; i <= EDGE; i++) {
                all[(r + size - 1) % size][i][EDGE + 1] = all[r][i][1];
                all[(r + 1) % size][i][0] = all[r][i][EDGE];
                all[r][EDGE + 1][i] = all[r][1][i];
                all[r][0][i] = all[r][EDGE][i];
            }
        for (int r = 0; r < size; r++)
            relax(all[r], after + r * WIDTH);
        for (int r = 0; r < size; r++)
            for (int y = 1; y <= EDGE; y++)
                memcpy(&all[r][y][1], &after[r * WIDTH + y][1], EDGE * sizeof(double));
    }
    memcpy(after, all[rank], sizeof all[rank]);
    free(all);
    return after;
}

static int relax_together(MPI_Win win)
{
    int wrong = 0, left = (rank + size - 1) % size, right = (rank + 1) % size, members[3], n = 0;
    MPI_Datatype column;
    MPI_Group world, neighbours;
    MPI_Type_vector(EDGE, 1, WIDTH, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int r = 0; r < size; r++)
        if (r == left || r == right || r == rank)
            members[n++] = r;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, members, &neighbours);
    fill(rank, tile);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < STEPS; step++) {
        exchange(win, column, neighbours, step);
        relax(tile, next);
        for (int y = 1; y <= EDGE; y++)
            memcpy(&tile[y][1], &next[y][1], EDGE * sizeof(double));
        MPI_Barrier(MPI_COMM_WORLD); /* halos are read before they are put anew */
    }
    double (*want)[WIDTH] = alone();
    for (int y = 1; y <= EDGE; y++)
        wrong += memcmp(&tile[y][1], &want[y][1], EDGE * sizeof(double)) != 0;
    free(want);
    MPI_Type_free(&column);
    MPI_Group_free(&world);
    MPI_Group_free(&neighbours);
    return wrong;
}

static int64_t share_of(int64_t job, int bin) { return job * job % (bin + 7); }

static int draw_jobs(void)
{
    MPI_Win win;
    int64_t *bins, job = 0, one = 1, sums[BINS];
    int wrong = 0;
    MPI_Win_allocate((BINS + 1) * sizeof *bins, sizeof *bins, MPI_INFO_NULL, MPI_COMM_WORLD, &bins,
                     &win);
    MPI_Win_fence(0, win);
    memset(bins, 0, (BINS + 1) * sizeof *bins);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    while (job < JOBS) {
        MPI_Fetch_and_op(&one, &job, MPI_INT64_T, 0, BINS, MPI_SUM, win);
        MPI_Win_flush(0, win);
        for (int bin = 0; bin < BINS && job < JOBS; bin++)
            sums[bin] = share_of(job, bin);
        for (int r = 0; r < size && job < JOBS; r++)
            MPI_Accumulate(sums, BINS, MPI_INT64_T, r, 0, BINS, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush_all(win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int bin = 0; bin < BINS; bin++) {
        int64_t want = 0;
        for (job = 0; job < JOBS; job++)
            want += share_of(job, bin);
        wrong += bins[bin] != want;
    }
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    return wrong;
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Aint bytes = WIDTH * WIDTH * sizeof(double);
    int all, create = argc > 1 && strcmp(argv[1], "create") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = calloc(WIDTH, sizeof *next);
    if (create)
        MPI_Win_create(tile = calloc(WIDTH, sizeof *tile), bytes, sizeof(double), MPI_INFO_NULL,
                       MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &tile, &win);
    int wrong = relax_together(win) + draw_jobs();
    MPI_Win_free(&win);
    if (create)
        free(tile);
    free(next);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("tiles: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
