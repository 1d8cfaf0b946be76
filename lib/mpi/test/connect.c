/*
 * connect: processes that meet by MPI_Comm_connect and MPI_Comm_accept, of one
 * job and of two, and talk across while each side talks among itself.
 *
 *     connect COMMAND...   rank 0 starts COMMAND... twice, as a job of its own
 *
 * Half of the ranks accept, the other half connects; then the two started jobs
 * do the same with each other, and with this one.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTS = 20000, ROUNDS = 3, CHILDREN = 2 };

static int wrong;

static void expect(int right, const char *what)
{
    if (!right && wrong++ < 5)
        fprintf(stderr, "connect: %s\n", what);
}

/** Each to each of the other side, short and long, to wildcards; and a sum. */
static void across(MPI_Comm inter)
{
    int rank, peers, sum = 0;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &peers);
    for (int ints = 1; ints <= INTS; ints *= 20) {
        int *out = malloc((size_t)ints * sizeof *out), *in = malloc((size_t)ints * sizeof *in);
        for (int i = 0; i < ints; i++)
            out[i] = rank + i;
        for (int r = 0; r < peers; r++) {
            MPI_Request request;
            MPI_Status status;
            MPI_Isend(out, ints, MPI_INT, r, ints, inter, &request);
            MPI_Recv(in, ints, MPI_INT, MPI_ANY_SOURCE, ints, inter, &status);
            expect(in[0] == status.MPI_SOURCE && in[ints - 1] == status.MPI_SOURCE + ints - 1,
                   "a message across");
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        free(out);
        free(in);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    expect(sum == peers * (peers - 1) / 2, "a sum across");
}

static void around(MPI_Comm comm)
{
    int rank, size, sum, got = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
    expect(got == (rank + size - 1) % size, "a message around");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == size * (size - 1) / 2, "a sum around");
}

static void talk(MPI_Comm inter, MPI_Comm own, int high)
{
    MPI_Comm merged;
    across(inter);
    around(own);
    MPI_Intercomm_merge(inter, high, &merged);
    around(merged);
    MPI_Comm_free(&merged);
    around(MPI_COMM_WORLD);
    MPI_Comm_disconnect(&inter);
}

/** Halves of one job. */
static void halves(int rank, int size)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int accepts = rank < size / 2;
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, accepts, rank, &half);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0)
            MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (accepts)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        talk(inter, half, accepts);
        if (rank == 0)
            MPI_Close_port(port);
    }
    MPI_Comm_free(&half);
}

/** The first child accepts, the second connects; it gets the port from their parent. */
static void children(char **argv)
{
    char port[MPI_MAX_PORT_NAME];
    int rank, errors[CHILDREN], more;
    MPI_Comm child[CHILDREN];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < CHILDREN; i++) {
        MPI_Comm_spawn(argv[0], argv + 1, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child[i],
                       errors);
        MPI_Bcast(&i, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, child[i]);
    }
    if (rank == 0) {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, child[0], MPI_STATUS_IGNORE);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, child[1]);
    }
    for (int i = 0; i < CHILDREN; i++) {
        if (rank == 0)
            MPI_Recv(&more, 1, MPI_INT, 0, 1, child[i], MPI_STATUS_IGNORE);
        wrong += rank == 0 ? more : 0;
        talk(child[i], MPI_COMM_WORLD, 0);
    }
}

static void as_child(MPI_Comm parent)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int which, rank, all;
    MPI_Comm inter;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&which, 1, MPI_INT, 0, parent);
    if (rank == 0 && which == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, parent);
    } else if (rank == 0) {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, parent, MPI_STATUS_IGNORE);
    }
    if (which == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, MPI_COMM_WORLD, which);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Send(&all, 1, MPI_INT, 0, 1, parent);
    talk(parent, MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int rank, size, all;
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        as_child(parent);
    } else {
        halves(rank, size);
        children(argv + 1);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && parent == MPI_COMM_NULL)
        printf("connect: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
