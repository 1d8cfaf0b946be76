/*
 * taken: a sender of long data leaves the library in the middle of it.  Its
 * receiver must have all nevertheless, before the sender comes back: the sender
 * computes until it is notified, through shared memory and without MPI.  In other
 * turns it comes back at any moment.  Then the other way
 * round: a receive that does not wait finds such data, and its process computes
 * until the sender's call is complete.
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 800, FOUND_TURNS = 160, MOST = 3 << 20, LIMIT_S = 20, RECEIVING = 1, RECEIVED = 2 };

static int rank, wrong;
static _Atomic int *state; /* of the turn, by the receiver: 4 times the turn and one of those */
static _Atomic int *sent;  /* the last turn whose send is complete */

static void await(_Atomic int *word, int least, int turn, const char *what)
{
    time_t end = time(NULL) + LIMIT_S;
    while (atomic_load(word) < least) {
        sched_yield();
        if (time(NULL) > end) {
            fprintf(stderr, "taken: turn %d: %s\n", turn, what);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/** More than is sent eagerly; some more than one ring takes. */
static int bytes_of(int turn)
{
    static const int sizes[] = { 17000, 40000, 65536, 100001, 262144, 400000, 524288, MOST };
    return sizes[turn % 8];
}

static char byte_of(int i, int turn) { return (char)(i * 3 + i / 4099 + turn); }

static void fill(char *data, int bytes, int turn)
{
    for (int i = 0; i < bytes; i++)
        data[i] = byte_of(i, turn);
}

/** Bytes `step` apart. */
static void check(const char *data, int bytes, int step, int turn)
{
    for (int i = 0; i < bytes; i++)
        if (data[i * step] != byte_of(i, turn)) {
            if (wrong++ < 5)
                fprintf(stderr, "taken: turn %d: byte %d of %d is wrong\n", turn, i, bytes);
            break;
        }
}

static void send(char *data, int turn)
{
    MPI_Request request;
    int bytes = bytes_of(turn), done = 0, tests = turn / 8 % 40;
    fill(data, bytes, turn);
    MPI_Isend(data, bytes, MPI_BYTE, 1, turn, MPI_COMM_WORLD, &request);
    while (atomic_load(state) < 4 * turn + RECEIVING && !done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    for (int i = 0; i < tests && !done; i++)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    for (unsigned i = 1; turn / 8 % 2 && !done && atomic_load(state) < 4 * turn + RECEIVED; i++) {
        for (volatile unsigned spins = i * 2654435761u % 60000; spins > 0; spins--)
            ;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    await(state, 4 * turn + RECEIVED, turn, "not received while its sender computes");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/** As it is, or as the gaps' neighbours: every other byte. */
static void receive(char *data, int turn)
{
    int bytes = bytes_of(turn), step = turn % 3 == 2 ? 2 : 1;
    MPI_Datatype type;
    MPI_Type_vector(bytes, 1, step, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    memset(data, -1, (size_t)bytes * (size_t)step);
    for (volatile int i = 0; i < turn % 5 * 1000; i++)
        ;
    atomic_store(state, 4 * turn + RECEIVING);
    if (turn % 2) {
        MPI_Request request;
        MPI_Irecv(data, 1, type, 0, turn, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(data, 1, type, 0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    atomic_store(state, 4 * turn + RECEIVED);
    check(data, bytes, step, turn);
    MPI_Type_free(&type);
}

static void send_found(char *data, int turn)
{
    int bytes = bytes_of(turn);
    fill(data, bytes, turn);
    if (turn % 3 == 0) { /* so that the 16th blocking call, whose data is offered in pieces, is of MOST bytes */
        MPI_Request request;
        MPI_Isend(data, bytes, MPI_BYTE, 1, turn, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(data, bytes, MPI_BYTE, 1, turn, MPI_COMM_WORLD);
    }
    atomic_store(sent, turn);
}

static void receive_found(char *data, int turn)
{
    MPI_Request request;
    int bytes = bytes_of(turn);
    memset(data, -1, (size_t)bytes);
    MPI_Probe(0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(data, bytes, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &request);
    await(sent, turn, turn, "not sent while its receiver computes");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(data, bytes, 1, turn);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Aint bytes;
    int unit, all;
    void *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate_shared(rank == 0 ? 64 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &base);
    state = base;
    sent = state + 1;
    if (rank == 0) {
        atomic_store(state, 0);
        atomic_store(sent, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    char *data = malloc((size_t)2 * MOST);
    for (int turn = 1; turn <= TURNS; turn++) {
        if (rank == 0)
            send(data, turn);
        else
            receive(data, turn);
    }
    for (int turn = 1; turn <= FOUND_TURNS; turn++) {
        if (rank == 0)
            send_found(data, turn);
        else
            receive_found(data, turn);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("taken: %d turns: %d wrong\n", TURNS + FOUND_TURNS, all);
    free(data);
    MPI_Win_free(&win);
    MPI_Finalize();
    return all > 0;
}
