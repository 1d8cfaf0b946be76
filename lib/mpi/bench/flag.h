/* A word that both ranks of a benchmark share: the machine's limit for messages. */
#ifndef BENCH_FLAG_H
#define BENCH_FLAG_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic long *own_word, *other_word; /* far enough apart not to be prefetched together */
static int follows; /* the rank that answers */

/** MPI_Win_free of what it returns frees the words. */
static MPI_Win open_word(int rank)
{
    enum { BYTES = 4096, APART = 64 };
    MPI_Win win;
    MPI_Aint bytes;
    int unit;
    _Atomic long *words;
    MPI_Win_allocate_shared(rank ? 0 : BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &words);
    own_word = words + rank * APART;
    other_word = words + (1 - rank) * APART;
    follows = rank;
    return win;
}

/** A turn is two ways of a word stored until the other process sees it. */
static void flag(int turns, int unused)
{
    static long base;
    (void)unused;
    for (long i = base + 1; i <= base + turns; i++) {
        if (!follows)
            atomic_store_explicit(own_word, i, memory_order_release);
        while (atomic_load_explicit(other_word, memory_order_acquire) < i)
            ;
        if (follows)
            atomic_store_explicit(own_word, i, memory_order_release);
    }
    base += turns;
}

/** Prints one way of the flag, the fastest of some batches: a cell. */
static inline void print_flag(const char *before, int rank)
{
    enum { BATCHES_OF_FLAG = 15, TURNS_OF_FLAG = 1000 };
    MPI_Win win = open_word(rank);
    double best = 1;
    for (int b = 0; b < BATCHES_OF_FLAG; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        flag(TURNS_OF_FLAG, 0);
        double took = (MPI_Wtime() - begin) / TURNS_OF_FLAG / 2;
        best = took < best ? took : best;
    }
    if (rank == 0)
        printf("%sflag 8: %.0f\n", before, best * 1e9);
    MPI_Win_free(&win);
}

#endif
