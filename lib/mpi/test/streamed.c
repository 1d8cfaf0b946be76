/*
 * streamed: a program stores past its caches (as compilers do for `nontemporal`), and gives that to MPI.  No
 * ordinary store waits for such ones: a peer that reads in place, or takes a lock, could see what was there before.
 *
 *     streamed [collectives]
 */
#include <emmintrin.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, SIZES = 3, TURNS = 1000 };

static const int sizes[SIZES] = { 2048, 8192, MOST };
static int rank, wrong;
static char *given, *got;

static long long *last_of(char *area, int bytes) { return (long long *)(area + bytes) - 1; }

/** The first and the last word. */
static void expect(char *area, int bytes, long long right, const char *what)
{
    long long first = *(long long *)area, last = *last_of(area, bytes);
    if ((first != right || last != right) && wrong++ < 10)
        fprintf(stderr, "streamed: %s of %d bytes: %lld, %lld, not %lld\n", what, bytes, first, last, right);
}

/** Parts of lines only, which the processor does not write by itself soon. */
static void stream(char *area, int bytes, long long value)
{
    _mm_stream_si64(last_of(area, bytes), value);
    _mm_stream_si64((long long *)area, value);
}

static void message(int bytes, int turn)
{
    if (rank == 0) {
        stream(given, bytes, turn);
        MPI_Send(given, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(got, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        expect(got, bytes, turn, "a message");
    }
}

static void collectives(int bytes, int turn)
{
    stream(given, bytes, turn + rank);
    MPI_Allreduce(given, got, bytes / 8, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect(got, bytes, 2 * turn + 1, "a sum");
    stream(given, bytes, turn + 7);
    MPI_Bcast(rank == 0 ? given : got, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    expect(rank == 0 ? given : got, bytes, turn + 7, "a broadcast");
}

/** Where others write: what was streamed before must not come later. */
static void gather(int bytes, int turn)
{
    *(long long *)given = *last_of(given, bytes) = turn + rank;
    stream(got, bytes, -1);
    stream(got + bytes, bytes, -1);
    MPI_Gather(given, bytes, MPI_BYTE, got, bytes, MPI_BYTE, turn % 2, MPI_COMM_WORLD);
    for (int r = 0; r < 2 && rank == turn % 2; r++)
        expect(got + r * bytes, bytes, turn + r, "a gathered piece");
}

static void meet(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - rank, 2, NULL, 0, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void windows(char *base, MPI_Win win, int bytes, int turn)
{
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        stream(base, bytes, turn);
        MPI_Win_unlock(0, win);
    }
    meet();
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(got, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, win);
        MPI_Win_unlock(0, win);
        expect(got, bytes, turn, "a locked window");
    }
    meet();
    if (rank == 0)
        stream(base, bytes, turn + 7);
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Get(got, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    if (rank == 1)
        expect(got, bytes, turn + 7, "a fenced window");
}

int main(int argc, char **argv)
{
    int only_collectives = argc > 1 && strcmp(argv[1], "collectives") == 0, all;
    char *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    given = aligned_alloc(64, MOST);
    got = aligned_alloc(64, 2 * MOST);
    if (!given || !got)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(given, 0, MOST);
    for (int turn = 0; turn < SIZES * TURNS; turn++) {
        collectives(sizes[turn / TURNS], turn);
        gather(sizes[turn / TURNS], turn);
    }
    for (int turn = 0; turn < SIZES * TURNS && !only_collectives; turn++)
        message(sizes[turn / TURNS], turn);
    MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    for (int turn = 0; turn < SIZES * TURNS && !only_collectives; turn++)
        windows(base, win, sizes[turn / TURNS], turn);
    MPI_Win_free(&win);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("streamed: %d wrong\n", all);
    MPI_Finalize();
    return all > 0;
}
