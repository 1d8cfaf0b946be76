/*
 * A job on several nodes: communicators within one are served by coll/smartmap,
 * those that span nodes by Open MPI's own collectives, and all are right.
 *
 * Who serves shows in the windows: coll/smartmap opens its peers' at the first
 * collective of a communicator.  So none may be open after small collectives
 * between nodes, and all of them after a barrier on each node.
 */
#include "model.h"

#include "../../smartmap/include/smartmap.h"

static int open_windows(void)
{
    int open = 0;
    for (int r = 0; r < smartmap_size(); r++)
        open += smartmap_alive(r);
    return open;
}

static void check_windows(const char *when, int want)
{
    if (open_windows() == want)
        return;
    fprintf(stderr, "rank %d of its node: %d windows open %s, want %d\n", smartmap_rank(),
            open_windows(), when, want);
    failures++;
}

/** The conformance set's short form. */
static void conform(MPI_Comm comm)
{
    static const int counts[] = { 5, 900 };
    int size;
    MPI_Comm_size(comm, &size);
    for (int what = 0; what < COLLECTIVES; what++)
        for (int c = 0; c < 2; c++)
            for (int variant = 0; variant < OPERATIONS; variant++)
                run_case(&(struct params){
                    .what = what, .count = counts[c], .in_place = variant % 2,
                    .root = (variant + c) % size, .send = variant % LAYOUTS,
                    .receive = variant / 2 % LAYOUTS, .operation = variant }, comm);
}

int main(int argc, char **argv)
{
    enum { WORLD, REVERSED, ACROSS, SPANNING, NODE = SPANNING, COMMS };
    MPI_Comm comm[COMMS] = { MPI_COMM_WORLD };
    int rank, size, here, nodes, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm[NODE]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm[REVERSED]);
    MPI_Comm_split(MPI_COMM_WORLD, smartmap_rank(), rank, &comm[ACROSS]);
    model_start();

    here = smartmap_rank() == 0;
    MPI_Allreduce(&here, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < SPANNING; i++)
        MPI_Barrier(comm[i]);
    check_windows("by collectives between nodes", 0);
    MPI_Barrier(comm[NODE]);
    check_windows("by a barrier on the node", smartmap_size() - 1);
    for (int i = 0; i < COMMS; i++)
        conform(comm[i]);

    model_stop();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("nodes: %d ranks on %d nodes: %d wrong\n", size, nodes, all);
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comm[i]);
    MPI_Finalize();
    return all != 0;
}
