/*
 * half posted|unexpected: rank 1 dies while it writes the data of a message
 * whose beginning rank 0 copies already.  What was sent before comes; of this
 * message rank 0 gets an error, and it does not wait for the end.
 *
 * half copying: rank 1 dies while it copies data that rank 0 has offered it where
 * it lies.  Rank 0's send ends, and its receive fails.
 *
 * Two ranks with a CPU each: else a message is written before it is seen.
 * Needs a launcher that lets survivors go on, as lost.c does.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../smartmap/include/smartmap.h"

enum { JUDGE, VICTIM, RANKS };
enum { WHOLE, HALF, ANSWER }; /* tags */
enum { OFFERS = 4 };
enum { PAGE_BYTES = 4096, BYTES = 4 * PAGE_BYTES, READABLE_BYTES = 2 * PAGE_BYTES };

static char data[BYTES];

static void die(int signo)
{
    (void)signo;
    kill(getpid(), SIGKILL);
}

/** BYTES, of which the last cannot be used: who tries dies. */
static char *half_of_it(void)
{
    char *part = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(part, 2, BYTES);
    mprotect(part + READABLE_BYTES, BYTES - READABLE_BYTES, PROT_NONE);
    signal(SIGSEGV, die);
    return part;
}

/** Data that stays is offered.  The victim waits for the last of it with a buffer that ends too early. */
static int judge_copying(void)
{
    int wrong = 0;
    char *offered = malloc(BYTES);
    memset(offered, 1, BYTES);
    for (int i = 0; i < OFFERS; i++) {
        wrong += MPI_Send(offered, BYTES, MPI_BYTE, VICTIM, WHOLE, MPI_COMM_WORLD) != MPI_SUCCESS;
        wrong += (MPI_Recv(NULL, 0, MPI_BYTE, VICTIM, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS) !=
                 (i < OFFERS - 1);
    }
    free(offered);
    return wrong;
}

static void receive_until_death(void)
{
    char *half = half_of_it();
    for (int i = 0; i < OFFERS; i++) {
        MPI_Recv(i < OFFERS - 1 ? data : half, BYTES, MPI_BYTE, JUDGE, WHOLE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, JUDGE, ANSWER, MPI_COMM_WORLD);
    }
}

static int judge(int unexpected)
{
    int wrong = 0, found = 0;
    MPI_Status status;
    while (unexpected && smartmap_alive(VICTIM))
        MPI_Iprobe(VICTIM, HALF, MPI_COMM_WORLD, &found, &status);
    wrong += MPI_Recv(data, BYTES, MPI_BYTE, VICTIM, HALF, MPI_COMM_WORLD, &status) == MPI_SUCCESS;
    if (unexpected)
        wrong += MPI_Recv(data, BYTES, MPI_BYTE, VICTIM, WHOLE, MPI_COMM_WORLD, &status) != MPI_SUCCESS ||
                 data[BYTES - 1] != 1;
    return wrong + found;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "posted";
    int rank, size, unexpected = strcmp(what, "unexpected") == 0, copying = strcmp(what, "copying") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (size != RANKS)
        _exit(1);
    memset(data, 1, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == JUDGE) {
        printf("half: %d wrong\n", copying ? judge_copying() : judge(unexpected));
        fflush(stdout);
        _exit(0);
    }
    if (copying)
        receive_until_death();
    if (unexpected)
        MPI_Send(data, BYTES, MPI_BYTE, JUDGE, WHOLE, MPI_COMM_WORLD);
    MPI_Send(half_of_it(), BYTES, MPI_BYTE, JUDGE, HALF, MPI_COMM_WORLD);
    _exit(1); /* it was not to return */
}
