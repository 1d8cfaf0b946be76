// A program that becomes another lets go of what it had mapped and shared, as
// one that ends does: `lets_go CASE` prepares something and becomes itself, as
// `lets_go as CASE ...`, which looks.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/shm.h>

// The last page is none of a large one.
enum { RW = PROT_READ | PROT_WRITE, BYTES = 3 << 20, LAST = BYTES - PAGE_BYTES, ROUNDS = 10 };

static char self[PATH_MAX];

static void become(const char *name, int number, int fd)
{
    char numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], "%d", number);
    snprintf(numbers[1], sizeof numbers[1], "%d", fd);
    execv(self, (char *[]){"lets_go", "as", (char *)name, numbers[0], numbers[1], NULL});
    need(0, "execv");
}

static int make(void)
{
    int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, "f");
    return fd;
}

static void *map(int fd)
{
    void *p = mmap(NULL, BYTES, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static void of_file(void)
{
    int fd = make();
    char *p = map(fd);
    strcpy(p, "first");
    strcpy(p + LAST, "last");
    become("of_file", 0, fd);
}
static void as_of_file(int number, int fd)
{
    char first[6] = "", last[5] = "";
    (void)number;
    check(pread(fd, first, 6, 0) == 6 && strcmp(first, "first") == 0, "read gives what was stored");
    check(pread(fd, last, 5, LAST) == 5 && strcmp(last, "last") == 0, "up to the last page");
    char *p = map(fd);
    check(strcmp(p, "first") == 0 && strcmp(p + LAST, "last") == 0, "mapped again it is there");
}

// With its descriptor gone, and the mapping made by a thread that has ended.
static void *map_and_close(void *arg)
{
    int fd = make();
    char *p = map(fd);
    strcpy(p + LAST, "last");
    close(fd);
    return arg;
}
static void of_thread(void)
{
    pthread_t thread;
    need(pthread_create(&thread, NULL, map_and_close, NULL) == 0 && pthread_join(thread, NULL) == 0, "pthread_create");
    become("of_thread", 0, 0);
}
static void as_of_thread(int number, int fd)
{
    char last[5] = "";
    (void)number;
    fd = open("f", O_RDONLY);
    check(pread(fd, last, 5, LAST) == 5 && strcmp(last, "last") == 0, "the file holds what was stored");
}

static unsigned long attached(int id)
{
    struct shmid_ds status;
    need(shmctl(id, IPC_STAT, &status) == 0, "shmctl");
    return status.shm_nattch;
}

static void of_segment(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    char *p = shmat(id, NULL, 0);
    need(p != (char *)-1 && attached(id) == 1, "shmat");
    strcpy(p + LAST, "segment");
    become("of_segment", id, 0);
}
static void as_of_segment(int id, int fd)
{
    (void)fd;
    check(attached(id) == 0, "the segment is attached nowhere");
    char *p = shmat(id, NULL, 0);
    need(p != (char *)-1, "shmat");
    check(strcmp(p + LAST, "segment") == 0 && attached(id) == 1, "attached again it holds what was stored");
    check(shmctl(id, IPC_RMID, NULL) == 0 && shmdt(p) == 0, "removed and detached");
    check_fails((long)shmat(id, NULL, 0), EINVAL, "it is gone");
}

// A segment that was removed goes with the program that has it.
static void of_removed_segment(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    need(shmat(id, NULL, 0) != (char *)-1 && shmctl(id, IPC_RMID, NULL) == 0, "shmat");
    become("of_removed_segment", id, 0);
}
static void as_of_removed_segment(int id, int fd)
{
    struct shmid_ds status;
    (void)fd;
    check_fails(shmctl(id, IPC_STAT, &status), EINVAL, "it is gone");
}

static void of_lock(void)
{
    int fd = make();
    pthread_mutex_t *mutex = map(fd);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    need(pthread_mutex_init(mutex, &attr) == 0 && pthread_mutex_lock(mutex) == 0, "pthread_mutex_lock");
    become("of_lock", 0, fd);
}
static void as_of_lock(int number, int fd)
{
    (void)number;
    pthread_mutex_t *mutex = map(fd);
    check(pthread_mutex_lock(mutex) == EOWNERDEAD, "a robust mutex says that its owner is gone");
    check(pthread_mutex_consistent(mutex) == 0 && pthread_mutex_unlock(mutex) == 0, "and can be used again");
}

// More often than there is room for it.
static void again(void) { become("again", ROUNDS, make()); }
static void as_again(int rounds, int fd)
{
    char *p = map(fd);
    need(p[LAST] == ROUNDS - rounds, "what the program before has stored");
    p[LAST]++;
    if (rounds > 0)
        become("again", rounds - 1, fd);
    check(1, "each program has found what the one before has stored");
}

int main(int argc, char **argv)
{
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "readlink");
    static const struct {
        const char *name;
        void (*run)(int, int);
    } others[] = {{"of_file", as_of_file}, {"of_thread", as_of_thread}, {"of_segment", as_of_segment},
                  {"of_removed_segment", as_of_removed_segment}, {"of_lock", as_of_lock}, {"again", as_again}};
    for (size_t i = 0; argc == 5 && strcmp(argv[1], "as") == 0 && i < sizeof others / sizeof *others; i++)
        if (strcmp(argv[2], others[i].name) == 0) {
            others[i].run(atoi(argv[3]), atoi(argv[4]));
            return check_done();
        }
    static const struct test_case cases[] = {
        CASE(of_file), CASE(of_thread), CASE(of_segment), CASE(of_removed_segment), CASE(of_lock), CASE(again),
    };
    return RUN_CASES(cases);
}
