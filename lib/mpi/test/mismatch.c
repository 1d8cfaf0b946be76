/*
 * Erroneous calls: the ranks disagree about how much data there is.  Somebody
 * must get MPI_ERR_TRUNCATE, none may hang, nothing beyond a buffer may be
 * written, and the next correct collective must be right.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 0x5e5e5e5e };

enum { BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, SCAN, KINDS };

static int call(int kind, const int *send, int *receive, int gives, int takes, MPI_Comm comm)
{
    switch (kind) {
    case BCAST: return MPI_Bcast(receive, takes, MPI_INT, 0, comm);
    case GATHER: return MPI_Gather(send, gives, MPI_INT, receive, takes, MPI_INT, 0, comm);
    case SCATTER: return MPI_Scatter(send, gives, MPI_INT, receive, takes, MPI_INT, 0, comm);
    case ALLGATHER: return MPI_Allgather(send, gives, MPI_INT, receive, takes, MPI_INT, comm);
    case ALLTOALL: return MPI_Alltoall(send, gives, MPI_INT, receive, takes, MPI_INT, comm);
    case REDUCE: return MPI_Reduce(send, receive, takes, MPI_INT, MPI_SUM, 0, comm);
    case ALLREDUCE: return MPI_Allreduce(send, receive, takes, MPI_INT, MPI_SUM, comm);
    default: return MPI_Scan(send, receive, takes, MPI_INT, MPI_SUM, comm);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = { 4, 400, 40000 };
    int rank, size, wrong = 0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int kind = 0; kind < KINDS; kind++)
        for (int c = 0; c < 3; c++) {
            /* Rank 0 gives twice as much; MPI_Alltoall checks itself that each
             * rank takes as much as it gives. */
            int n = counts[c], more = rank == 0 ? 2 * n : n, class, truncated, some, sum;
            int takes = kind == BCAST || kind >= ALLTOALL ? more : n;
            size_t room = (size_t)size * 2 * (size_t)n, used = (size_t)size * (size_t)takes;
            int *send = calloc(room, sizeof(int)), *receive = malloc(room * sizeof(int));
            memset(receive, GUARD & 0xff, room * sizeof(int));
            MPI_Error_class(call(kind, send, receive, more, takes, MPI_COMM_WORLD), &class);
            for (size_t i = used; i < room; i++)
                wrong += receive[i] != GUARD;
            truncated = class == MPI_ERR_TRUNCATE;
            if (kind == GATHER) /* the root's own count is what disagrees */
                truncated |= rank == 0 && class != MPI_SUCCESS;
            MPI_Allreduce(&truncated, &some, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (some == 0 || sum != size * (size - 1) / 2) {
                fprintf(stderr, "rank %d: kind %d, %d ints: %d truncated, sum %d\n", rank, kind,
                        n, some, sum);
                wrong++;
            }
            free(send);
            free(receive);
        }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("mismatch: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
