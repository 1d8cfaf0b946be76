/*
 * lost_windows: rank 0 shares a window with each of the others, which die before
 * they do what it waits for.  Whatever that is, it must end with an error, also
 * a loop that polls.
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
#include <time.h>
#include <unistd.h>

enum { IN_FENCE = 1, LOCK_HOLDER, LOCK_TARGET, POSTER, STARTER, TESTED, POLLED, RANKS };
enum { LIMIT_S = 100 };

static int rank, failures;
static _Atomic int *ready; /* of each rank: it is about to die */
static MPI_Win win;
static MPI_Group victim;
static int *word;

static void expect_error(int error, const char *what)
{
    int class;
    MPI_Error_class(error, &class);
    if (class == MPI_ERR_OTHER)
        return;
    fprintf(stderr, "lost_windows: %s: error class %d\n", what, class);
    failures++;
}

/** Until the victim is about to die. */
static void await(int who)
{
    time_t end = time(NULL) + LIMIT_S;
    while (!atomic_load(&ready[who])) {
        sched_yield();
        if (time(NULL) > end) {
            fprintf(stderr, "lost_windows: rank %d does not get on\n", who);
            _exit(1);
        }
    }
}

static void die(int locks)
{
    if (locks)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    atomic_store(&ready[rank], 1);
    raise(SIGKILL);
}

/** Calls that do not wait, until one fails. */
static int repeated(int who)
{
    int error = MPI_SUCCESS, flag, got;
    time_t end = time(NULL) + LIMIT_S;
    while (error == MPI_SUCCESS && time(NULL) < end) {
        if (who == LOCK_TARGET) {
            error = MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
            if (error == MPI_SUCCESS)
                error = MPI_Win_unlock(1, win);
        } else if (who == TESTED) {
            error = MPI_Win_test(win, &flag);
        } else {
            MPI_Get(&got, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
            error = MPI_Win_flush(1, win);
        }
    }
    return error;
}

static void judge(int who)
{
    if (who == TESTED || who == STARTER)
        MPI_Win_post(victim, 0, win);
    if (who == POLLED)
        MPI_Win_lock_all(0, win);
    await(who);
    switch (who) {
    case IN_FENCE: expect_error(MPI_Win_fence(0, win), "a fence"); break;
    case LOCK_HOLDER:
        expect_error(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), "a lock that a dead rank has");
        break;
    case POSTER: expect_error(MPI_Win_start(victim, 0, win), "a start"); break;
    case STARTER: expect_error(MPI_Win_wait(win), "a wait"); break;
    case TESTED: expect_error(repeated(who), "tests"); break;
    case POLLED: expect_error(repeated(who), "polling"); break;
    default: expect_error(repeated(who), "locks at a dead rank");
    }
}

int main(int argc, char **argv)
{
    int size, unit;
    MPI_Aint bytes;
    MPI_Win board;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) {
        fprintf(stderr, "lost_windows: needs %d ranks\n", RANKS);
        _exit(1);
    }
    MPI_Win_allocate_shared(rank ? 0 : RANKS * sizeof *ready, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &ready, &board);
    MPI_Win_shared_query(board, 0, &bytes, &unit, &ready);
    MPI_Win wins[RANKS];
    MPI_Comm comms[RANKS];
    for (int who = 1; who < RANKS; who++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 || rank == who ? 0 : MPI_UNDEFINED, rank,
                       &comms[who]);
        if (comms[who] == MPI_COMM_NULL)
            continue;
        MPI_Win_allocate(sizeof *word, 1, MPI_INFO_NULL, comms[who], &word, &wins[who]);
        MPI_Win_set_errhandler(wins[who], MPI_ERRORS_RETURN);
        win = wins[who]; /* a victim has one only */
    }
    if (rank != 0)
        die(rank == LOCK_HOLDER);
    for (int who = 1; who < RANKS; who++) {
        MPI_Group both;
        MPI_Comm_group(comms[who], &both);
        MPI_Group_incl(both, 1, (int[]){ 1 }, &victim);
        win = wins[who];
        judge(who);
    }
    printf("lost_windows: %d wrong\n", failures);
    fflush(stdout);
    _exit(failures != 0);
}
