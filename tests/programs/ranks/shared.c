// Two ranks and the files that both map: run as MARGAY_RANK 0 and 1, on a node
// or as two processes of Linux, in one directory. Rank 0 checks and prints.
#include "../common/parallel.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/shm.h>

enum { RW = PROT_READ | PROT_WRITE, BYTES = 4 << 20, ROUNDS = 300 };

// At the beginning of the file "board".
struct board {
    atomic_int here, step[2];
    pthread_mutex_t mutex, robust, pi;
    pthread_cond_t cond;
    pthread_barrier_t barrier;
    long counter, turn, sum;
    atomic_long seen;
};

static int rank;
static struct board *board;

// Both ranks have come so far.
static void meet(void)
{
    int step = ++board->step[rank];
    AWAIT(board->step[1 - rank] >= step);
}

static int make(const char *name, off_t bytes)
{
    int fd = open(name, O_CREAT | O_RDWR | O_EXCL, 0600);
    need(fd >= 0 && ftruncate(fd, bytes) == 0, name);
    return fd;
}

static int find(const char *name, off_t bytes)
{
    int fd;
    AWAIT((fd = open(name, O_RDWR)) >= 0);
    AWAIT(lseek(fd, 0, SEEK_END) >= bytes);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void *map(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static pthread_mutexattr_t *shared_mutex(int robust, int protocol)
{
    static pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, robust);
    pthread_mutexattr_setprotocol(&attr, protocol);
    return &attr;
}

static void begin(void)
{
    int fd = rank == 0 ? make("board", sizeof *board) : find("board", sizeof *board);
    board = map(fd, sizeof *board);
    close(fd);
    if (rank == 0) {
        pthread_condattr_t cond;
        pthread_barrierattr_t barrier;
        pthread_condattr_init(&cond);
        pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
        pthread_barrierattr_init(&barrier);
        pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&board->mutex, shared_mutex(PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE));
        pthread_mutex_init(&board->robust, shared_mutex(PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE));
        pthread_mutex_init(&board->pi, shared_mutex(PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT));
        pthread_cond_init(&board->cond, &cond);
        pthread_barrier_init(&board->barrier, &barrier, 2);
        board->here = 1;
    }
    AWAIT(board->here == 1);
    meet();
}

static void memory_is_one(void)
{
    int fd = rank == 0 ? make("data", BYTES) : find("data", BYTES);
    char *data = map(fd, 2 * BYTES);
    meet();
    if (rank == 0)
        seq_fill(data, 0, BYTES / 8);
    meet();
    if (rank == 1) {
        board->seen = seq_matches(data, 0, BYTES / 8);
        static char back[BYTES];
        board->seen += 2 * (pread(fd, back, BYTES, 0) == BYTES && seq_matches(back, 0, BYTES / 8));
        pwrite(fd, "by a call", 10, 5000);
        ftruncate(fd, BYTES + 100);
        strcpy(data + BYTES, "grown");
    }
    meet();
    if (rank == 0) {
        check(board->seen & 1, "the other rank sees what was stored");
        check(board->seen & 2, "and reads it from the file");
        check(strcmp(data + 5000, "by a call") == 0, "what it writes to the file is seen");
        check(strcmp(data + BYTES, "grown") == 0, "also where the file has grown");
        // After the other rank has unmapped, too.
        munmap(data, BYTES / 2);
        check(strcmp(data + BYTES, "grown") == 0, "a part unmapped leaves the rest");
    } else
        munmap(data, 2 * BYTES);
    meet();
    if (rank == 0)
        check(strcmp(data + BYTES, "grown") == 0, "the other rank's end of it, too");
    meet();
}

static void segments(void)
{
    if (rank == 0)
        board->counter = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    meet();
    char *p = shmat((int)board->counter, NULL, 0);
    need(p != (char *)-1, "shmat");
    meet();
    if (rank == 0)
        shmctl((int)board->counter, IPC_RMID, NULL);
    p[rank] = 'a' + rank;
    meet();
    if (rank == 0)
        check(p[0] == 'a' && p[1] == 'b', "a segment is attached by both");
    shmdt(p);
    meet();
}

static void locks(pthread_mutex_t *mutex, const char *name)
{
    if (rank == 0)
        board->counter = 0;
    meet();
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(mutex);
        long before = board->counter;
        if (i % 16 == 0)
            sched_yield();
        board->counter = before + 1;
        pthread_mutex_unlock(mutex);
    }
    meet();
    if (rank == 0)
        check(board->counter == 2 * ROUNDS, "%s: no count is lost", name);
}

static void condition(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&board->mutex);
        while (board->turn % 2 != rank)
            pthread_cond_wait(&board->cond, &board->mutex);
        board->turn++;
        pthread_cond_signal(&board->cond);
        pthread_mutex_unlock(&board->mutex);
    }
    meet();
    if (rank == 0)
        check(board->turn == 2 * ROUNDS, "a condition variable hands over");
    int serial = 0;
    for (int i = 0; i < ROUNDS; i++)
        serial += pthread_barrier_wait(&board->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    pthread_mutex_lock(&board->mutex);
    board->sum += serial;
    pthread_mutex_unlock(&board->mutex);
    meet();
    if (rank == 0)
        check(board->sum == ROUNDS, "a barrier lets both through");
}

static void semaphores(void)
{
    char names[2][64];
    sem_t *sems[2];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "/margay-test-%s-%d", getenv("SHARED_NAME"), i);
        sems[i] = sem_open(names[i], O_CREAT, 0600, 0);
        need(sems[i] != SEM_FAILED, "sem_open");
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0)
            sem_post(sems[1]);
        need(sem_wait(sems[rank]) == 0, "sem_wait");
        if (rank == 1)
            sem_post(sems[0]);
    }
    meet();
    if (rank == 0) {
        int value;
        check(sem_getvalue(sems[0], &value) == 0 && value == 0, "a named semaphore hands over");
        sem_unlink(names[0]);
        sem_unlink(names[1]);
    }
}

static void futexes(void)
{
    _Atomic uint32_t *word = (_Atomic uint32_t *)&board->seen;
    if (rank == 0)
        *word = 0;
    meet();
    if (rank == 1) {
        AWAIT(waiting((void *)word, 1) == 1);
        *word = 1;
        board->sum = futex((void *)word, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else {
        while (*word == 0)
            futex((void *)word, FUTEX_WAIT, 0, NULL, NULL, 0);
    }
    meet();
    if (rank == 0)
        check(board->sum == 1, "a wake-up counts the other rank");
}

// Rank 1 ends with the lock, and with stores that were not written back.
static void leaves(void)
{
    if (rank == 1)
        need(pthread_mutex_lock(&board->robust) == 0, "lock");
    meet();
    if (rank == 1) {
        int fd = make("left", 8192);
        strcpy((char *)map(fd, 8192) + 4096, "left behind");
        exit(0);
    }
    int got = pthread_mutex_lock(&board->robust);
    check(got == EOWNERDEAD, "a robust lock says that its owner is gone");
    check(pthread_mutex_consistent(&board->robust) == 0 && pthread_mutex_unlock(&board->robust) == 0, "and goes on");
}

int main(void)
{
    rank = atoi(getenv("MARGAY_RANK"));
    begin();
    memory_is_one();
    segments();
    locks(&board->mutex, "a mutex");
    locks(&board->robust, "a robust mutex");
    locks(&board->pi, "a mutex with priority inheritance");
    condition();
    semaphores();
    futexes();
    leaves();
    return rank == 0 ? check_done() : 0;
}
