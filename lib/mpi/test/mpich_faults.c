/*
 * Faults of MPICH 4.0.2 itself, each as the smallest program that shows it.
 * Run without the preload, two ranks; exits with 0 if the library is right.
 *
 *     mpich_faults reduce-in-place | reduce-scatter-block
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

/** In place at a root that is not rank 0, beyond 2 KiB: segmentation fault. */
static int reduce_in_place(int rank)
{
    enum { N = 600 };
    static int x[N];
    for (int i = 0; i < N; i++)
        x[i] = rank + i;
    MPI_Reduce(rank == 1 ? MPI_IN_PLACE : x, x, N, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    return rank == 1 && x[N - 1] != 2 * (N - 1) + 1;
}

static void take_left(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)right)[2 * i] = ((int *)left)[2 * i];
}

/** A type shorter than its extent and an operation that is not commutative. */
static int reduce_scatter_block(int rank)
{
    MPI_Datatype every_second;
    MPI_Op op;
    int x[4] = { 10 * rank, 0, 10 * rank + 1, 0 }, got[2] = { -1, -1 };
    MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &every_second);
    MPI_Type_commit(&every_second);
    MPI_Op_create(take_left, 0, &op);
    MPI_Reduce_scatter_block(x, got, 1, every_second, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    MPI_Type_free(&every_second);
    return got[0] != rank; /* of rank 0's two elements, the one that is ours */
}

int main(int argc, char **argv)
{
    int rank, wrong, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wrong = argc > 1 && strcmp(argv[1], "reduce-in-place") == 0 ? reduce_in_place(rank)
                                                                 : reduce_scatter_block(rank);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", argc > 1 ? argv[1] : "reduce-scatter-block",
               all ? "wrong" : "right");
    MPI_Finalize();
    return all != 0;
}
