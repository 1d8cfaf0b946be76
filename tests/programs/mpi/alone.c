// The only rank of its job, which no launcher has started: messages to itself, and a window of its own.
#include "conform.h"

int main(int argc, char **argv)
{
    int token = 7, got = 0, sum = 0, *mine;
    MPI_Request request;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size == 1, "alone");
    MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&token, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(got == 7 && sum == 7, "messages to itself");
    MPI_Win_allocate_shared(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    mine[0] = 3;
    check(mine[0] == 3, "a shared window");
    MPI_Win_free(&window);
    return end();
}
