/*
 * matched: messages that a matched probe has taken are received after their
 * communicator was freed, and where others were made meanwhile.  The receive took
 * freed memory for the communicator, and went to ob1, which has no such message.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 3, ROUNDS = 20, AFTERWARDS = 4 };
static const int ints[KINDS] = { 3, 1000, 100000 }; /* in a line, in a ring, where they lie */

static int rank, size, failures;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "matched: rank %d: %s\n", rank, what);
}

static int *fill(int count, int from)
{
    int *data = malloc((size_t)count * sizeof *data);
    for (int i = 0; i < count; i++)
        data[i] = from + i;
    return data;
}

static void judge(int *data, int count, int from)
{
    int right = 1;
    for (int i = 0; i < count; i++)
        right = right && data[i] == from + i;
    expect(right, "data of a message of a freed communicator");
    free(data);
}

static void receive(MPI_Message *message, int count, int from, int blocking)
{
    int *in = calloc((size_t)count, sizeof *in);
    MPI_Request request;
    MPI_Status status;
    if (blocking) {
        MPI_Mrecv(in, count, MPI_INT, message, &status);
    } else {
        MPI_Imrecv(in, count, MPI_INT, message, &request);
        MPI_Wait(&request, &status);
    }
    expect(status.MPI_SOURCE == from, "its source");
    judge(in, count, from);
}

static MPI_Message probe(MPI_Comm comm, int from, int blocking)
{
    MPI_Message message;
    int there = 0;
    if (blocking)
        MPI_Mprobe(from, 0, comm, &message, MPI_STATUS_IGNORE);
    while (!blocking && !there)
        MPI_Improbe(from, 0, comm, &there, &message, MPI_STATUS_IGNORE);
    return message;
}

/** From `giver` to `taker`, whose side of the communicator has nothing else under way. */
static void pass(int giver, int taker, int count, int blocking, int afterwards)
{
    int *out = NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    MPI_Comm comm, others[AFTERWARDS];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == giver) {
        out = fill(count, rank);
        MPI_Isend(out, count, MPI_INT, taker, 0, comm, &request);
    }
    if (rank == taker)
        message = probe(comm, giver, blocking);
    MPI_Comm_free(&comm);
    for (int i = 0; i < afterwards; i++)
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &others[i]);
    if (rank == taker)
        receive(&message, count, giver, blocking);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(out);
    for (int i = 0; i < afterwards; i++)
        MPI_Comm_free(&others[i]);
}

int main(int argc, char **argv)
{
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < ROUNDS; i++)
        for (int giver = 0; giver < size; giver++)
            pass(giver, (giver + 1) % size, ints[i % KINDS], i % 2, i % 4 < 2 ? 0 : AFTERWARDS);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("matched: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
