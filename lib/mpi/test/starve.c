/*
 * starve: messages that need their sender's library get on while it does
 * nothing but short collectives.  These polled their peers' memory only and did
 * not drive Open MPI's progress: a message of pieces took 233,183 collectives
 * to arrive, and the buffer of MPI_Bsend stayed full.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 100000, MOST_COLLECTIVES = 8000, TIMES = 30, MESSAGES = 300, BYTES = 100000, ROOM = 40 };

static int rank, size, wrong;

static void expect(int right, const char *what)
{
    if (!right && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/** Every second int, so that neither side has the data in one piece. */
static void in_pieces(void)
{
    MPI_Datatype type;
    MPI_Request request = MPI_REQUEST_NULL;
    int *data = calloc(2 * BLOCKS, sizeof *data), all = 0, done = 0, collectives = 0;
    MPI_Type_vector(BLOCKS, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    if (rank == 0)
        MPI_Isend(data, 1, type, 1, 0, MPI_COMM_WORLD, &request);
    if (rank == 1)
        MPI_Irecv(data, 1, type, 0, 0, MPI_COMM_WORLD, &request);
    for (; !all && collectives < 50 * MOST_COLLECTIVES; collectives++) {
        if (rank != 0)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        int mine = done || rank == 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    expect(collectives < MOST_COLLECTIVES, "a message starved during collectives");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    free(data);
}

static void buffered(void)
{
    int bytes = ROOM * (BYTES + MPI_BSEND_OVERHEAD), error = MPI_SUCCESS;
    char *data = calloc(1, BYTES), *room = malloc((size_t)bytes);
    MPI_Buffer_attach(room, bytes);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < MESSAGES; i++) {
        if (rank == 0 && error == MPI_SUCCESS)
            error = MPI_Bsend(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Bcast(&error, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 1 && error == MPI_SUCCESS)
            MPI_Recv(data, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    expect(error == MPI_SUCCESS, "the buffer of MPI_Bsend stays full");
    MPI_Buffer_detach(&room, &bytes);
    free(room);
    free(data);
}

int main(int argc, char **argv)
{
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < TIMES; i++)
        in_pieces();
    buffered();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("starve: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
