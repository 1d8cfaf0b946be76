/*
 * truncated: a receive ends in the middle of an element of a message that comes
 * in pieces.  Its sender had nothing that it could pack for the rest, and wrote
 * pieces of no bytes for ever.  And receives that take nothing of longer messages, many
 * enough that some are timed: how long for each line?
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 20000, SENTINEL = 0x5a };

static int rank, size, failures;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "truncated: rank %d: %s\n", rank, what);
}

/** `room` bytes for a message of 2 * PAIRS doubles, which lie scattered. */
static void receive_in(MPI_Datatype pairs, const double *out, int room)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, class, whole = room / 8;
    char *in = malloc((size_t)room + 1);
    MPI_Request request;
    memset(in, SENTINEL, (size_t)room + 1);
    MPI_Isend(out, 1, pairs, to, 0, MPI_COMM_WORLD, &request);
    int error = MPI_Recv(in, room, MPI_PACKED, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    expect(class == MPI_ERR_TRUNCATE, "a truncated message must say so");
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "its sender is not at fault");
    for (int i = 0; i < whole; i++) {
        double d;
        memcpy(&d, in + 8 * i, sizeof d);
        expect(d == from + 3 * (i / 2) + i % 2, "what fits has come");
    }
    expect(in[room] == SENTINEL, "written beyond a truncated receive");
    free(in);
}

static void receive_nothing(void)
{
    enum { BYTES = 40000, MESSAGES = 60 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, class;
    char *out = calloc(1, BYTES);
    for (int i = 0; i < MESSAGES; i++) {
        int bytes = i % 2 ? BYTES : 8192;
        out[BYTES / 3] = (char)i;
        MPI_Request request;
        MPI_Isend(out, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request);
        int error = MPI_Recv(NULL, 0, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(error, &class);
        expect(class == MPI_ERR_TRUNCATE, "a message that has no room must say so");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(out);
}

int main(int argc, char **argv)
{
    static double out[3 * PAIRS];
    int all, sum;
    MPI_Datatype pairs;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_vector(PAIRS, 2, 3, MPI_DOUBLE, &pairs);
    MPI_Type_commit(&pairs);
    for (int i = 0; i < 3 * PAIRS; i++)
        out[i] = rank + i;
    for (int odd = 0; odd < 8; odd++)
        receive_in(pairs, out, 160000 + odd);
    receive_in(pairs, out, 3); /* not even one */
    receive_nothing();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == size * (size - 1) / 2, "afterwards");
    MPI_Type_free(&pairs);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("truncated: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
