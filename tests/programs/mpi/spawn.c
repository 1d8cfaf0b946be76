// Spawns one process of itself (which gets `spawned` as its argument), talks to it, and goes on. Where
// an MPI cannot spawn it says so, and that is no failure: natively it cannot either.
#include "conform.h"

static int spawned(void)
{
    MPI_Comm parent;
    int token;
    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parent);
    MPI_Recv(&token, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
    token++;
    MPI_Send(&token, 1, MPI_INT, 0, 2, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    // Only ranks write the mark.
    char *args[] = {"-u", "MARGAY_TEST_MARK", argv[0], "spawned", NULL};
    int token = 41, answer = 0, error;
    if (strcmp(argv[argc - 1], "spawned") == 0)
        return spawned();
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    error = MPI_Comm_spawn("env", args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    if (rank == 0)
        printf("     spawn is %s\n", error == MPI_SUCCESS ? "served" : "refused");
    if (error == MPI_SUCCESS) {
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_INT, 0, 1, inter);
            MPI_Recv(&answer, 1, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE);
        }
        agree(rank != 0 || answer == 42, "the spawned process answers");
        MPI_Comm_disconnect(&inter);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    agree(1, "the ranks go on");
    return end();
}
