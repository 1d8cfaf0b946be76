/*
 * Ranks join, read and write each other's heaps by arithmetic, and see death.
 * Modes: "" all live; "kill" rank 1 dies by SIGKILL at a random moment;
 * "free" rank 0 frees, grows and takes memory that all others are reading;
 * "leave" rank 1's initial thread ends, and another one goes on.
 */
#include "harness.h"

#include <pthread.h>

enum { WORDS = 1 << 16 };

static void read_and_write(int rank, int size)
{
    uint64_t *mine = malloc(WORDS * sizeof *mine);
    CHECK(mine && smartmap_exports(mine, WORDS * sizeof *mine));
    CHECK(smartmap_keeps() == !is_on_margay());
    for (int i = 0; i < WORDS; i++)
        mine[i] = (uint64_t)rank << 32 | (unsigned)i;
    board->address[rank] = mine;
    meet(0, size);
    for (int r = 0; r < size; r++) {
        if (r == rank)
            continue;
        void *address = board->address[r];
        CHECK(smartmap_reachable(r, address, WORDS * sizeof *mine));
        CHECK(smartmap_reachable(r, &r, sizeof r) == is_on_margay()); /* a stack */
        CHECK(!smartmap_reachable(r, (char *)NULL + 4096, 8));
        CHECK(!smartmap_reachable(r, address, (size_t)1 << 62));
        uint64_t *theirs = smartmap_remote((unsigned)r, address);
        for (int i = size; i < WORDS; i++)
            CHECK(theirs[i] == ((uint64_t)r << 32 | (unsigned)i));
        theirs[rank] = 77;
    }
    meet(1, size);
    for (int r = 0; r < size; r++)
        CHECK(mine[r] == (r == rank ? ((uint64_t)rank << 32 | (unsigned)r) : 77));
    meet(2, size);
    free(mine);
}

/** Rank 1 is killed while all others read its memory. */
static void see_death(int rank, int size)
{
    char *mine = malloc(1 << 20);
    memset(mine, 1 + rank, 1 << 20);
    board->address[rank] = mine;
    meet(3, size);
    if (rank == 1) {
        srand((unsigned)getpid());
        nanosleep(&(struct timespec){ .tv_nsec = rand() % 20000000 }, NULL);
        raise(SIGKILL);
    }
    unsigned long sum = 0;
    const char *theirs = smartmap_remote(1, board->address[1]);
    while (smartmap_alive(1))
        for (int i = 0; i < 1 << 20; i += 64)
            sum += (unsigned char)theirs[i];
    CHECK(sum % 2 == 0);
    CHECK(theirs[5] == 2); /* stays readable, but is no longer reported so */
    CHECK(!smartmap_reachable(1, board->address[1], 8));
}

/** Has the initial thread ended?  Field 3 of its stat, proc(5). */
static int initial_thread_ended(void)
{
    char stat[512] = "", *state;
    FILE *file = fopen("/proc/self/stat", "r");
    CHECK(file && fgets(stat, sizeof stat, file) && (state = strrchr(stat, ')')) != NULL);
    fclose(file);
    return state[2] == 'Z';
}

static void *go_on(void *size)
{
    while (!initial_thread_ended())
        sched_yield();
    meet(4, *(int *)size);
    meet(5, *(int *)size);
    exit(0);
}

/**
 * Rank 1's initial thread ends by pthread_exit(3), another one lives on.  The
 * kernel marks the mutex of the header then, and peers took that for death.
 */
static void leave_to_a_thread(int rank, int size)
{
    static int ranks;
    char *mine = malloc(1 << 20);
    ranks = size;
    board->address[rank] = mine;
    pthread_t other;
    if (rank == 1) {
        CHECK(pthread_create(&other, NULL, go_on, &ranks) == 0);
        pthread_exit(NULL);
    }
    meet(4, size);
    CHECK(smartmap_alive(1) && smartmap_reachable(1, board->address[1], 1 << 20));
    meet(5, size);
    while (smartmap_alive(1))
        sched_yield();
}

/** What a reader sees of freed memory is undefined, but it lives. */
static void see_freed(int rank, int size)
{
    enum { ROUNDS = 400, PIECE = 3 << 20 };
    for (int round = 0; rank == 0 && round < ROUNDS; round++) {
        char *p = malloc(PIECE);
        CHECK(p != NULL);
        memset(p, round, PIECE);
        atomic_store(&board->address[0], p);
        p = realloc(p, (size_t)PIECE * (1 + round % 3));
        CHECK(p != NULL && p[PIECE - 1] == (char)round);
        free(p);
    }
    if (rank == 0)
        atomic_store(&board->arrived[9], 1);
    unsigned long sum = 0;
    while (atomic_load(&board->arrived[9]) == 0) {
        const char *address = atomic_load(&board->address[0]);
        if (smartmap_reachable(0, address, PIECE))
            for (int i = 0; i < PIECE; i += 4096)
                sum += ((const unsigned char *)smartmap_remote(0, address))[i];
    }
    CHECK(rank == 0 || sum > 0);
    meet(3, size);
}

/** After all have met: each has said before what it offers. */
static void see_services(int rank, int size)
{
    for (int r = 0; r < size; r++) {
        CHECK(smartmap_announced(r, "some") == (r % 2 == 0));
        CHECK(!smartmap_announced(r, "none"));
    }
    CHECK(!smartmap_announced(size, "some"));
    CHECK(rank % 2 != 0 || smartmap_announce("some") == -EADDRINUSE);
    meet(6, size); /* it goes with the process */
}

/**
 * More have connected to a rank's announcements than its queues take, which
 * net.core.somaxconn may make shorter than there are ranks: they are still seen,
 * and joined.  A rank that came later took them for absent.
 */
static void fill_queues(int size)
{
    for (int r = 0; r < size; r++)
        for (int i = 0; i < 2 * SMARTMAP_MAX_RANKS; i++)
            CHECK(smartmap_announced(r, "some") == (r % 2 == 0));
    for (int i = 0; i < 2 * SMARTMAP_MAX_RANKS && !is_on_margay(); i++)
        while (!smartmap_announced(0, "join")) /* rank 0 waits there for us */
            sched_yield();
}

int rank_main(int rank, int size, const char *mode)
{
    CHECK(smartmap_rank() == rank && smartmap_size() == size);
    CHECK(rank % 2 != 0 || smartmap_announce("some") == 0);
    meet(7, size);
    if (rank == 1)
        fill_queues(size);
    CHECK(smartmap_join(10000) == 0);
    read_and_write(rank, size);
    see_services(rank, size);
    if (strcmp(mode, "kill") == 0)
        see_death(rank, size);
    if (strcmp(mode, "free") == 0)
        see_freed(rank, size);
    if (strcmp(mode, "leave") == 0)
        leave_to_a_thread(rank, size);
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    int failed = 0;
    for (int r = 0; r < size; r++)
        failed |= status[r] != (strcmp(mode, "kill") == 0 && r == 1 ? SIGKILL : 0);
    return failed;
}
