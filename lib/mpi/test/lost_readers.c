/*
 * lost_readers: rank 0 gives data to ranks 1, which has died, and 2, which is
 * late.  MPI_Bcast returned as soon as it saw the death, and rank 2 then read
 * what rank 0 had written next.  The error must come when rank 2 has read.
 *
 * Needs a launcher that lets survivors go on, as lost.c does.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../smartmap/include/smartmap.h"
#include "caller.h"

enum { GIVER, VICTIM, LATE, RANKS };
enum { INTS = 100000, LIMIT_S = 100 };
enum { YIELDS = 10000 }; /* of a wait, which looks for deaths in each thousandth round (common/wait.h) */
enum step { TURN_OF_LATE = 1, READ, SAID };

static _Atomic int *step; /* where the ranks are, shared by them */
static int yields = -1;   /* of rank 0 in its collective */

/** In place of libc's: a wait calls it here. */
int sched_yield(void)
{
    if (yields >= 0 && is_called_by(__builtin_return_address(0), "mca_coll_smartmap") &&
        ++yields == YIELDS)
        atomic_store(step, TURN_OF_LATE);
    return (int)syscall(SYS_sched_yield);
}

static void await(enum step wanted)
{
    time_t end = time(NULL) + LIMIT_S;
    while (atomic_load(step) < (int)wanted) {
        sched_yield();
        if (time(NULL) > end) {
            fprintf(stderr, "lost_readers: another rank does not get on\n");
            _exit(1);
        }
    }
}

static void give(int *data)
{
    int error, wrong;
    while (smartmap_alive(VICTIM))
        sched_yield();
    yields = 0;
    error = MPI_Bcast(data, INTS, MPI_INT, GIVER, MPI_COMM_WORLD);
    yields = -1;
    memset(data, 0, INTS * sizeof *data);
    if (atomic_load(step) < TURN_OF_LATE)
        atomic_store(step, TURN_OF_LATE);
    await(READ);
    wrong = (error == MPI_SUCCESS) + atomic_load(&step[1]);
    printf("lost_readers: %d wrong\n", wrong);
    fflush(stdout);
    atomic_store(step, SAID);
}

static void take(int *data)
{
    int wrong = 0;
    memset(data, 0, INTS * sizeof *data);
    await(TURN_OF_LATE);
    MPI_Bcast(data, INTS, MPI_INT, GIVER, MPI_COMM_WORLD);
    for (int i = 0; i < INTS; i++)
        wrong += data[i] != i + 1;
    atomic_store(&step[1], wrong);
    atomic_store(step, READ);
    await(SAID);
}

int main(int argc, char **argv)
{
    int rank, size, unit, *data = malloc(INTS * sizeof *data);
    MPI_Win window;
    MPI_Aint bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate_shared(rank ? 0 : 2 * sizeof *step, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &step,
                            &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &step);
    if (rank == GIVER)
        step[0] = step[1] = 0;
    for (int i = 0; i < INTS; i++)
        data[i] = i + 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (size != RANKS)
        _exit(1);
    if (rank == VICTIM)
        raise(SIGKILL);
    if (rank == GIVER)
        give(data);
    else
        take(data);
    _exit(0);
}
