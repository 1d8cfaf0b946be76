// What a child shares with its parent: files, memfds and segments that were
// mapped with MAP_SHARED before the fork, and locks in them: `shares CASE`.
#include "../common/parallel.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/shm.h>
#include <sys/wait.h>

// The last page is none of a large one.
enum { RW = PROT_READ | PROT_WRITE, BYTES = 3 << 20, LAST = BYTES - PAGE_BYTES, ROUNDS = 100 };

static int make(const char *name, off_t bytes)
{
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, bytes) == 0, name);
    return fd;
}

static void *map(int fd, size_t bytes, int prot)
{
    void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static void ends_well(pid_t pid, const char *text)
{
    int status;
    check(waitpid(pid, &status, 0) == pid && status == 0, "%s", text);
}

static void memory(void)
{
    int fd = make("f", BYTES), pipes[2];
    char *m = map(fd, BYTES, RW), *read_only = map(fd, BYTES, PROT_READ), byte;
    strcpy(m, "before");
    need(pipe(pipes) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        if (read(pipes[0], &byte, 1) != 1 || strcmp(m, "before") != 0 || strcmp(m + 100, "after") != 0)
            _exit(1);
        strcpy(m + LAST, "by the child");
        _exit(strcmp(read_only + LAST, "by the child") == 0 ? 0 : 2);
    }
    strcpy(m + 100, "after");
    write(pipes[1], "", 1);
    ends_well(pid, "the child sees what its parent stores, before and after");
    check(strcmp(m + LAST, "by the child") == 0, "and its parent what it stores");
    char bytes[13];
    check(pread(fd, bytes, 13, LAST) == 13 && strcmp(bytes, "by the child") == 0, "as does read");
    munmap(m, BYTES);
    munmap(read_only, BYTES);
    check(pread(fd, bytes, 13, LAST) == 13 && strcmp(bytes, "by the child") == 0, "the file holds it in the end");
    close(fd);
}

static void descendants(void)
{
    int fd = memfd_create("m", MFD_CLOEXEC);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, "memfd_create");
    atomic_int *word = map(fd, BYTES, RW);
    pid_t pid = forked();
    if (pid == 0) {
        if (forked() == 0) {
            while (word[0] == 0)
                sched_yield();
            word[1] = 2;
            _exit(0);
        }
        _exit(0);
    }
    ends_well(pid, "the child ends before its own child");
    word[0] = 1;
    AWAIT(word[1] == 2);
    check(1, "which shares the memory, too");
    munmap(word, BYTES);
    close(fd);
}

// A child of vfork stores before its parent goes on.
static void vforked(void)
{
    int fd = make("f", BYTES);
    char *m = map(fd, BYTES, RW), byte;
    pid_t pid = vfork();
    if (pid == 0) {
        m[LAST] = 'v';
        _exit(0);
    }
    ends_well(pid, "a child of vfork ends");
    check(m[LAST] == 'v', "its parent sees what it has stored");
    munmap(m, BYTES);
    check(pread(fd, &byte, 1, LAST) == 1 && byte == 'v', "and the file holds it");
    close(fd);
}

static void *map_anonymous(size_t bytes)
{
    void *p = mmap(NULL, bytes, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

// Memory without a file was copied for the child.
static void anonymous(void)
{
    char *m = map_anonymous(BYTES), *other = map_anonymous(BYTES);
    strcpy(m, "before");
    pid_t pid = forked();
    if (pid == 0) {
        if (strcmp(m, "before") != 0 || other[LAST] != 0)
            _exit(1);
        strcpy(m + LAST, "by the child");
        _exit(munmap(m, BYTES));
    }
    ends_well(pid, "the child has the memory");
    check(strcmp(m + LAST, "by the child") == 0 && other[LAST] == 0, "its parent sees what it stores");
    check(mremap(m, BYTES, BYTES - PAGE_BYTES, 0) == m && munmap(other, BYTES) == 0, "it is made shorter");
    madvise(m, PAGE_BYTES, MADV_DONTNEED);
    check(strcmp(m, "before") == 0 && msync(m, PAGE_BYTES, MS_SYNC) == 0, "and holds what it held");
    check(munmap(m, BYTES) == 0, "until it is unmapped");
    for (int i = 0; i < ROUNDS; i++) {
        char *again = map_anonymous(BYTES);
        need(again[0] == 0 && again[LAST] == 0, "zeros");
        again[0] = again[LAST] = 'x';
        munmap(again, BYTES);
    }
    check(1, "new memory holds zeros, as often as it is mapped");
    char *reserved = mmap(NULL, 1ul << 36, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(reserved != MAP_FAILED && munmap(reserved, 1ul << 36) == 0, "it may be reserved");
}

// A suite as LTP's: each test is a process that counts in shared memory, waits at checkpoints in it, and is killed at the limit.
struct results {
    atomic_int passed, failed, at;
};

static void tests_of_a_suite(struct results *results, int number)
{
    sem_t *checkpoint = (sem_t *)(results + 1);
    switch (number) {
    case 0:
        results->passed++;
        _exit(0);
    case 1: // two processes that wait for each other
        sem_init(checkpoint, 1, 0);
        if (forked() == 0) {
            results->at = getpid();
            sem_post(checkpoint);
            _exit(0);
        }
        while (sem_wait(checkpoint) != 0)
            ;
        wait(NULL);
        if (results->at > 0)
            results->passed++;
        _exit(0);
    case 2: // ends by a signal
        results->failed++;
        abort();
    default: // hangs
        for (;;)
            pause();
    }
}

static void suite(void)
{
    struct results *kinds[] = {map_anonymous(PAGE_BYTES), map(make("results", PAGE_BYTES), PAGE_BYTES, RW)};
    signal(SIGALRM, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        int ends[4];
        for (int number = 0; number < 4; number++) {
            pid_t pid = forked();
            if (pid == 0) {
                setpgid(0, 0);
                signal(SIGALRM, SIG_DFL);
                signal(SIGABRT, SIG_DFL);
                alarm(number == 3 ? 1 : HANG_S);
                tests_of_a_suite(kinds[i], number);
            }
            need(waitpid(pid, &ends[number], 0) == pid, "waitpid");
        }
        check(ends[0] == 0 && ends[1] == 0 && WTERMSIG(ends[2]) == SIGABRT && WTERMSIG(ends[3]) == SIGALRM,
              "tests end as they do%s", i == 0 ? "" : ", with a file");
        check(kinds[i]->passed == 2 && kinds[i]->failed == 1, "and their results are seen");
    }
    unlink("results");
}

static void segment(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    char *p = shmat(id, NULL, 0);
    need(p != (char *)-1, "shmat");
    shmctl(id, IPC_RMID, NULL);
    pid_t pid = forked();
    if (pid == 0) {
        strcpy(p + BYTES - 8, "segment");
        _exit(0);
    }
    ends_well(pid, "the child has the segment");
    check(strcmp(p + BYTES - 8, "segment") == 0, "it is the same");
    shmdt(p);
}

// At the beginning of a shared file.
struct board {
    sem_t here, there, early;
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
};

static struct board *new_board(void)
{
    struct board *board = map(make("board", sizeof *board), sizeof *board, RW);
    pthread_barrierattr_t barrier;
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &barrier, 2);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&board->mutex, &mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&board->cond, &cond);
    sem_init(&board->here, 1, 0);
    sem_init(&board->there, 1, 0);
    sem_init(&board->early, 1, 0);
    board->turn = 0;
    return board;
}

static void take_turns(struct board *board, int who)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&board->mutex);
        while (board->turn % 2 != who)
            pthread_cond_wait(&board->cond, &board->mutex);
        board->turn++;
        pthread_cond_signal(&board->cond);
        pthread_mutex_unlock(&board->mutex);
    }
    pthread_barrier_wait(&board->barrier);
}

static void locks(void)
{
    struct board *board = new_board();
    pid_t pid = forked();
    if (pid == 0) {
        for (int i = 0; i < ROUNDS; i++) {
            sem_post(&board->here);
            sem_wait(&board->there);
        }
        take_turns(board, 1);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&board->here);
        sem_post(&board->there);
    }
    check(1, "a semaphore hands over to the child and back");
    take_turns(board, 0);
    check(board->turn == 2 * ROUNDS, "a mutex, a condition variable and a barrier, too");
    ends_well(pid, "the child ends");
    munmap(board, sizeof *board);
    unlink("board"); // what locks leave in it depends on who was first
}

static void *wait_early(void *board)
{
    sem_wait(&((struct board *)board)->early);
    return NULL;
}

// The parent's other thread waits before there is a child.
static void waiting_before(void)
{
    struct board *board = new_board();
    pthread_t thread;
    need(pthread_create(&thread, NULL, wait_early, board) == 0, "pthread_create");
    // sem_t of glibc: its word, and how many wait in the upper half.
    AWAIT(((atomic_uint *)&board->early)[1] == 1);
    pid_t pid = forked();
    if (pid == 0) {
        sem_post(&board->early);
        _exit(0);
    }
    need(pthread_join(thread, NULL) == 0, "pthread_join");
    check(1, "the child wakes who waited before the fork");
    ends_well(pid, "the child ends");
    munmap(board, sizeof *board);
    unlink("board"); // what locks leave in it depends on who was first
}

enum { CHILDREN = 10 };
static atomic_int over;

static void *store_all_the_time(void *words)
{
    while (!over)
        ((atomic_uint *)words)[0]++;
    return NULL;
}
static void *write_all_the_time(void *words)
{
    while (!over)
        msync(words, BYTES, MS_SYNC);
    return NULL;
}
static void *map_all_the_time(void *arg)
{
    int fd = make("g", BYTES);
    while (!over)
        munmap(map(fd, BYTES, RW), BYTES);
    return arg;
}

// What children store is kept, whatever other threads do with such memory while they are made.
static void beside_threads(void)
{
    int fd = make("f", BYTES), kept = 0;
    char *m = map(fd, BYTES, RW);
    void *(*const kinds[])(void *) = {store_all_the_time, write_all_the_time, map_all_the_time};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        need(pthread_create(&threads[i], NULL, kinds[i], m) == 0, "pthread_create");
    for (int i = 1; i <= CHILDREN; i++) {
        pid_t pid = forked();
        int status;
        if (pid == 0) {
            m[i * PAGE_BYTES] = (char)i;
            _exit(0);
        }
        need(waitpid(pid, &status, 0) == pid && status == 0, "waitpid");
    }
    over = 1;
    for (int i = 0; i < 3; i++)
        need(pthread_join(threads[i], NULL) == 0, "pthread_join");
    need(munmap(m, BYTES) == 0, "munmap");
    for (int i = 1; i <= CHILDREN; i++) {
        char byte;
        kept += pread(fd, &byte, 1, i * PAGE_BYTES) == 1 && byte == i;
    }
    check(kept == CHILDREN, "the file holds what each child has stored: %d", kept);
    close(fd);
    unlink("f"); // how often the threads have stored and mapped differs
    unlink("g");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(memory), CASE(descendants), CASE(vforked), CASE(anonymous),      CASE(suite),
        CASE(segment), CASE(locks),      CASE(waiting_before), CASE(beside_threads),
    };
    return RUN_CASES(cases);
}
