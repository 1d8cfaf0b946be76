/*
 * offered: medium data that stays is offered where it lies, and written into the ring meanwhile.
 * A receiver comes at any moment of that.  As soon as its call returns, the sender spoils the data; then it
 * restores it, so that it is offered again.  Whatever way it went, the receiver must have what was sent.
 *
 * Two ranks with a CPU each: else no receiver waits.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 5, MOST = 16384, TURNS = 14000, WAYS = 7, SPOILT = 0xee, ANSWER = 1 << 20, MOST_SPINS = 3000 };

static const int sizes[SIZES] = { 4096, 5001, 8192, 12347, MOST };
static int rank, wrong;
static char *data[SIZES];

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static char byte_of(int i, int kind) { return (char)(i * 7 + i / 251 + kind); }

static void fill(int kind)
{
    for (int i = 0; i < sizes[kind]; i++)
        data[kind][i] = byte_of(i, kind);
}

static void spin(unsigned *random)
{
    for (volatile unsigned left = next_random(random) % MOST_SPINS; left > 0; left--)
        ;
}

static void check(const char *got, int bytes, int step, int kind, int way)
{
    for (int i = 0; i < bytes; i++)
        if (got[i * step] != byte_of(i, kind)) {
            if (wrong++ < 5)
                fprintf(stderr, "offered: way %d: byte %d of %d is wrong\n", way, i, bytes);
            break;
        }
}

/** The end first: who copies meanwhile is not ahead of this. */
static void spoil(int kind)
{
    for (int at = sizes[kind]; at-- > 0;)
        ((volatile char *)data[kind])[at] = (char)SPOILT;
}

static void send(int turn, int kind, int way, unsigned *random)
{
    MPI_Request request;
    spin(random);
    if (way == 1) {
        MPI_Isend(data[kind], sizes[kind], MPI_BYTE, 1, turn, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (way == 2) {
        MPI_Ssend(data[kind], sizes[kind], MPI_BYTE, 1, turn, MPI_COMM_WORLD);
    } else {
        MPI_Send(data[kind], sizes[kind], MPI_BYTE, 1, turn, MPI_COMM_WORLD);
    }
    spoil(kind);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fill(kind);
}

static void receive(int turn, int kind, int way, unsigned *random)
{
    static char got[2 * MOST];
    int bytes = sizes[kind], step = 1;
    MPI_Status status;
    MPI_Datatype apart;
    memset(got, 0, sizeof got);
    spin(random);
    if (way == 3) { /* into every other byte */
        step = 2;
        MPI_Type_vector(bytes, 1, step, MPI_BYTE, &apart);
        MPI_Type_commit(&apart);
        MPI_Recv(got, 1, apart, 0, turn, MPI_COMM_WORLD, &status);
        MPI_Type_free(&apart);
    } else if (way == 4) { /* cut short */
        bytes /= 2;
        wrong += MPI_Recv(got, bytes, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &status) == MPI_SUCCESS;
    } else if (way == 5) { /* no room at all */
        bytes = 0;
        wrong += MPI_Recv(NULL, 0, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &status) == MPI_SUCCESS;
    } else if (way == 6) { /* unexpected */
        MPI_Probe(MPI_ANY_SOURCE, turn, MPI_COMM_WORLD, &status);
        MPI_Recv(got, bytes, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(got, bytes, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &status);
    }
    MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    check(got, bytes, step, kind, way);
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : TURNS, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    unsigned choices = 1, random = (unsigned)rank + 2;
    for (int kind = 0; kind < SIZES; kind++) {
        data[kind] = malloc(MOST);
        fill(kind);
    }
    for (int turn = 0; turn < turns; turn++) {
        int kind = (int)(next_random(&choices) % SIZES), way = (int)(next_random(&choices) % WAYS);
        (rank == 0 ? send : receive)(turn, kind, way, &random);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("offered: %d turns: %d wrong\n", turns, all);
    for (int kind = 0; kind < SIZES; kind++)
        free(data[kind]);
    MPI_Finalize();
    return all > 0;
}
