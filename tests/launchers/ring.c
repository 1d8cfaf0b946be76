// Passes a token and a long message around, reduces to all, looks into the next rank's part of a window that ranks share if they are all on one node, and ends as its argument says: well, abort (MPI_Abort with 3), crash (rank 1 writes to nowhere),
// spin (never; all have met). Shows the variable RING_WORD.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG = 1 << 18 };
static int there[LONG], here[LONG];

// How many numbers of the rank before are not what it has sent.
static int long_messages(int rank, int size)
{
    int wrong = 0, next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < LONG; i++)
        there[i] = rank + i;
    MPI_Sendrecv(there, LONG, MPI_INT, next, 1, here, LONG, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; i++)
        wrong += here[i] != last + i;
    return wrong;
}

static int on_one_node(int size)
{
    MPI_Comm node;
    int near;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &near);
    MPI_Comm_free(&node);
    return near == size;
}

// What the next rank has put into its part.
static int of_the_next(int rank, int size)
{
    MPI_Win window;
    MPI_Aint bytes;
    int *own, *its, unit, seen;
    MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    MPI_Win_lock_all(0, window);
    *own = 100 + rank;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    MPI_Win_shared_query(window, (rank + 1) % size, &bytes, &unit, &its);
    seen = *its;
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    return seen;
}

// What is in the pipe when a job aborts hydra may drop, natively, too.
static void read_by_launcher(void)
{
    int left = 0;
    struct stat out;
    if (fstat(STDOUT_FILENO, &out) != 0 || !S_ISFIFO(out.st_mode))
        return;
    while (ioctl(STDOUT_FILENO, FIONREAD, &left) == 0 && left > 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "well";
    int rank, size, token = 0, sum, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int wrong = long_messages(rank, size), seen = on_one_node(size) ? of_the_next(rank, size) : -1;
    const char *word = getenv("RING_WORD");
    printf("rank %d of %d on %s: token %d, sum %d, %d wrong, next %d %s\n", rank, size, name, token, sum, wrong, seen,
           word ? word : "");
    fflush(stdout);
    read_by_launcher();
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(way, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(way, "crash") == 0 && rank == 1)
        *(volatile int *)8 = 1;
    while (strcmp(way, "well") != 0)
        ;
    MPI_Finalize();
    return 0;
}
