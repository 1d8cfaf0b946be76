/*
 * One test program is both sides: started plainly it spawns `n` ranks of
 * itself under the preload and judges them; started as a rank it runs
 * rank_main().  Ranks find each other's addresses on a board, a small shared
 * mapping inherited by descriptor.
 *
 *     test-x LIBRARY RANKS [MODE]
 *
 * On Margay yod starts the ranks, `yod -n RANKS test-x`, and the board is rank
 * 0's, which the others reach as all of its memory.
 */
#ifndef HARNESS_H
#define HARNESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "smartmap.h"

enum { BOARD_BYTES = 1 << 16, HANG_LIMIT_S = 120, MAX_TEST_RANKS = 64 };

struct board {
    _Atomic int arrived[256];
    void *_Atomic address[MAX_TEST_RANKS];
    _Atomic int pid[MAX_TEST_RANKS];
};

static struct board *board;

/** As abi/src/map.rs has it, AT_MARGAY. */
static int is_on_margay(void)
{
    return getauxval(0x4d47) != 0;
}

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "%s:%d: rank %d: not true: %s (errno %d)\n",     \
                    __FILE__, __LINE__, smartmap_rank(), #condition, errno); \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

int rank_main(int rank, int size, const char *mode);
/** 0 when the ranks' statuses are as the test wants them. */
int judge(const int *status, int size, const char *mode);

/** Wait for all ranks at numbered point `step`. */
__attribute__((unused)) static void meet(int step, int size)
{
    atomic_fetch_add(&board->arrived[step], 1);
    while (atomic_load(&board->arrived[step]) < size)
        sched_yield();
}

static pid_t spawn_rank(char **argv, int rank, int size, int fd)
{
    char variables[6][512];
    char *extra[8] = { 0 };
    snprintf(variables[0], 512, "SMARTMAP_RANK=%d", rank);
    snprintf(variables[1], 512, "SMARTMAP_SIZE=%d", size);
    snprintf(variables[2], 512, "SMARTMAP_JOB=test.%d", (int)getpid());
    snprintf(variables[3], 512, "LD_PRELOAD=%s", argv[1]);
    snprintf(variables[4], 512, "BOARD_FD=%d", fd);
    for (int i = 0; i < 5; i++)
        extra[i] = variables[i];
    extra[5] = getenv("SMARTMAP_ARENA_BYTES") ? variables[5] : NULL;
    if (extra[5])
        snprintf(variables[5], 512, "SMARTMAP_ARENA_BYTES=%s",
                 getenv("SMARTMAP_ARENA_BYTES"));
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, extra) != 0)
        _exit(126);
    return pid;
}

static int run_all(char **argv, int size)
{
    int fd = memfd_create("board", 0), status[MAX_TEST_RANKS] = { 0 };
    if (fd < 0 || ftruncate(fd, BOARD_BYTES) != 0)
        return 1;
    pid_t pids[MAX_TEST_RANKS];
    for (int r = 0; r < size; r++)
        pids[r] = spawn_rank(argv, r, size, fd);
    int left = size;
    for (int tick = 0; left > 0 && tick < HANG_LIMIT_S * 100; tick++) {
        for (int r = 0; r < size; r++)
            if (pids[r] > 0 && waitpid(pids[r], &status[r], WNOHANG) == pids[r])
                pids[r] = 0, left--;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    for (int r = 0; r < size; r++)
        if (pids[r] > 0) {
            fprintf(stderr, "%s: rank %d hangs\n", argv[0], r);
            kill(pids[r], SIGKILL);
            waitpid(pids[r], &status[r], 0);
        }
    return left > 0 ? 1 : judge(status, size, argv[3] ? argv[3] : "");
}

/** A rank on Margay; the board goes with rank 0, which therefore ends last. */
static int run_on_margay(const char *mode)
{
    static struct board own;
    int rank = smartmap_rank(), size = smartmap_size();
    CHECK(rank >= 0 && size <= MAX_TEST_RANKS && smartmap_join(10000) == 0);
    board = smartmap_remote(0, &own);
    board->pid[rank] = getpid();
    int result = rank_main(rank, size, mode);
    for (int r = 1; rank == 0 && r < size; r++)
        while (smartmap_alive(r))
            sched_yield();
    return result;
}

int main(int argc, char **argv)
{
    if (is_on_margay())
        return run_on_margay(argc > 1 ? argv[1] : "");
    const char *rank = getenv("SMARTMAP_RANK");
    if (argc < 3)
        return 2;
    int size = atoi(argv[2]);
    if (!rank)
        return run_all(argv, size);
    board = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                 atoi(getenv("BOARD_FD")), 0);
    CHECK(board != MAP_FAILED);
    board->pid[atoi(rank)] = getpid();
    return rank_main(atoi(rank), size, argc > 3 ? argv[3] : "");
}

__attribute__((unused)) static int all_succeeded(const int *status, int size)
{
    int failed = 0;
    for (int r = 0; r < size; r++)
        failed |= status[r] != 0;
    return failed;
}
#endif
