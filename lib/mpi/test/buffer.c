/*
 * buffer: MPI_Bsend without room beside an open collective.  The search for room
 * in a full buffer runs Open MPI's progress, which starts the collective's next
 * round by our messages: under the lock that these need, a rank waited for itself.
 * A program of its own: Open MPI's ob1 counts the message that found no room, and
 * its receiver waits for it for ever.
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 100000 };

static int rank, size, to, from, failures;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/** A counter in memory that all ranks share. */
static atomic_int *shared_counter(MPI_Win *window)
{
    MPI_Aint bytes;
    int unit;
    atomic_int *counter;
    MPI_Win_allocate_shared(rank ? 0 : sizeof *counter, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &counter,
                            window);
    MPI_Win_shared_query(*window, 0, &bytes, &unit, &counter);
    if (rank == 0)
        atomic_store(counter, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    return counter;
}

/** All ranks come here without MPI, so that none makes progress meanwhile. */
static void meet_outside(atomic_int *arrived)
{
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < size)
        sched_yield();
}

static int bsend(const char *out)
{
    int class;
    MPI_Error_class(MPI_Bsend(out, BYTES, MPI_BYTE, to, 0, MPI_COMM_WORLD), &class);
    return class;
}

static void full_buffer(atomic_int *arrived, const char *out, char *in)
{
    int one = 1, ranks = 0, word;
    MPI_Request request;
    expect(bsend(out) == MPI_SUCCESS, "an empty buffer");
    MPI_Iallreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Send(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    meet_outside(arrived);
    /* It is there, with the first round's messages: the collective does not see them yet. */
    MPI_Recv(&word, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(bsend(out) == MPI_ERR_BUFFER, "room in a full buffer");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(ranks == size, "a collective beside a full buffer");
    MPI_Barrier(MPI_COMM_WORLD); /* no buffer gets room before all have tried */
    MPI_Recv(in, BYTES, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (bsend(out) != MPI_SUCCESS)
        ;
    MPI_Recv(in, BYTES, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int provided, all, room_bytes = BYTES + MPI_BSEND_OVERHEAD;
    char *out = calloc(1, BYTES), *in = malloc(BYTES), *room = malloc((size_t)room_bytes);
    MPI_Win window;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    atomic_int *arrived = shared_counter(&window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(room, room_bytes);
    full_buffer(arrived, out, in);
    MPI_Buffer_detach(&room, &room_bytes);
    MPI_Win_free(&window);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("buffer: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
