/*
 * exposed: rank 0 sends from a window, and gives it to collectives, while another
 * rank counts in it by MPI_Fetch_and_op.  No count is lost, although who reads
 * data that is written anew may store what it has read (common/copy.h): not
 * where a window may be updated.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 8192, LINE_WORDS = 8, ROUNDS = 5000, COUNTERS = 16 };

static int rank;
static long counts;

/** Words of rank 0, but for those that are counted: the first of each line, where a reader would store. */
static void write_between(long *words, int round)
{
    for (int i = 0; i < WORDS; i++)
        if (i % LINE_WORDS != 0)
            words[i] = round + i;
}

static void count(MPI_Win win, int turn)
{
    long one = 1, before;
    for (int i = 0; i < COUNTERS; i++) {
        MPI_Aint at = (MPI_Aint)(turn * COUNTERS + i) * LINE_WORDS % WORDS;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, at, MPI_SUM, win);
    }
    MPI_Win_flush(0, win);
    counts += COUNTERS;
}

/** Until rank 0 has given all. */
static void count_on(MPI_Win win)
{
    MPI_Request request;
    int ended = 0;
    MPI_Irecv(NULL, 0, MPI_LONG, 0, ROUNDS, MPI_COMM_WORLD, &request);
    for (int turn = 0; !ended; turn++) {
        count(win, turn);
        MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    }
}

/** Rank 0 gives, 1 takes, and the last counts meanwhile. */
static void give(long *words, long *got, MPI_Comm two, MPI_Win win)
{
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS && rank == 0; round++) {
        write_between(words, round);
        MPI_Win_sync(win);
        MPI_Send(words, WORDS, MPI_LONG, 1, round, MPI_COMM_WORLD);
        write_between(words, round + 1);
        MPI_Bcast(words, WORDS, MPI_LONG, 0, two);
    }
    for (int round = 0; round < ROUNDS && rank == 1; round++) {
        MPI_Recv(got, WORDS, MPI_LONG, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Bcast(got, WORDS, MPI_LONG, 0, two);
    }
    if (rank == 0)
        MPI_Send(NULL, 0, MPI_LONG, 2, ROUNDS, MPI_COMM_WORLD);
    else if (rank == 2)
        count_on(win);
    MPI_Win_unlock_all(win);
}

int main(int argc, char **argv)
{
    MPI_Comm two;
    MPI_Win win;
    long counted = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &two);
    long *words = aligned_alloc(4096, WORDS * sizeof *words), *got = malloc(WORDS * sizeof *got);
    for (int i = 0; i < WORDS; i++)
        words[i] = 0;
    MPI_Win_create(words, WORDS * sizeof *words, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    give(words, got, two, win);
    MPI_Reduce(&counts, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < WORDS && rank == 0; i += LINE_WORDS)
        counted += words[i];
    MPI_Win_free(&win);
    if (rank == 0)
        printf("exposed: of %ld: %ld wrong\n", all, all - counted);
    if (two != MPI_COMM_NULL)
        MPI_Comm_free(&two);
    free(words);
    free(got);
    MPI_Finalize();
    return rank == 0 && all != counted;
}
