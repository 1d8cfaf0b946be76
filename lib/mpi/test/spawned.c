/*
 * spawned: a job that starts another one and talks to it, while its own ranks
 * talk among themselves; and windows of MPI's own one-sided kind, whose
 * components send messages where they do not map memory.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { INTS = 20000 };

static int failures;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "spawned: %s\n", what);
}

/** Everyone to everyone else's side, and back as a sum. */
static void across(MPI_Comm inter, int first)
{
    static int out[INTS], in[INTS];
    int rank, peers;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &peers);
    for (int i = 0; i < INTS; i++)
        out[i] = rank + i;
    for (int turn = 0; turn < 2; turn++) {
        for (int r = 0; r < peers && turn == first; r++)
            MPI_Send(out, INTS, MPI_INT, r, rank, inter);
        for (int r = 0; r < peers && turn != first; r++) {
            MPI_Recv(in, INTS, MPI_INT, r, r, inter, MPI_STATUS_IGNORE);
            expect(in[0] == r && in[INTS - 1] == r + INTS - 1, "a message across jobs");
        }
    }
}

static void around(MPI_Comm comm)
{
    int rank, size, got = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
    expect(got == (rank + size - 1) % size, "a message around");
}

static void one_sided(void)
{
    int rank, size, *words, one = 1, old, all[2] = { 0 };
    MPI_Win win;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    words[0] = words[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    expect(words[0] == (rank + size - 1) % size, "MPI_Put");
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 1, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(all, 2, MPI_INT, 0, 0, 2, MPI_INT, win);
    MPI_Win_unlock(0, win);
    expect(all[1] == size, "MPI_Fetch_and_op");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, merged;
    int rank, all = 0, errors[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    around(MPI_COMM_WORLD);
    one_sided();
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[argc - 1], &argv[argc], 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       errors);
    else
        inter = parent;
    across(inter, parent == MPI_COMM_NULL);
    around(MPI_COMM_WORLD);
    MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &merged);
    around(merged);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, merged);
    if (rank == 0 && parent == MPI_COMM_NULL)
        printf("spawned: %d wrong\n", all);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&inter);
    MPI_Finalize();
    return all != 0;
}
