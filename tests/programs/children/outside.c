// A file that the program maps and shares is the same for whoever else has it:
// children that map it anew or write to it, and programs that they become,
// which have nothing else in common with it: `outside CASE`, and `outside as
// CASE`, which is such a program.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/shm.h>
#include <sys/wait.h>

enum { RW = PROT_READ | PROT_WRITE, PAGES = 8, BYTES = PAGES * PAGE_BYTES, FAR = 5 * PAGE_BYTES };
enum { OLD = 0 };

static char self[PATH_MAX];

static char *map(int fd)
{
    char *p = mmap(NULL, BYTES, RW, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static char *make(int *fd)
{
    *fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(*fd >= 0 && ftruncate(*fd, BYTES) == 0, "f");
    return map(*fd);
}

static void ends_well(pid_t pid, const char *text)
{
    int status;
    check(waitpid(pid, &status, 0) == pid && status == 0, "%s", text);
}

// A program on its own, which does the other half of a case; with OTHER_NODE, the path of yod, on a node of its own.
static pid_t other(const char *name)
{
    const char *yod = getenv("OTHER_NODE");
    pid_t pid = forked();
    if (pid == 0 && yod != NULL)
        execl(yod, yod, "--quiet", "--accel", "tcg", "-m", "64M", "--oversubscribe", "--", self, "as", name, (char *)NULL);
    if (pid == 0) {
        // Without the variable by which it would say where it runs (mark.c).
        execve(self, (char *[]){"outside", "as", (char *)name, NULL}, (char *[]){NULL});
        _exit(98);
    }
    return pid;
}

static word_t *word_in(char *m)
{
    return (word_t *)(m + FAR);
}

static void again(void)
{
    int fd;
    char *m = make(&fd);
    strcpy(m, "before");
    pid_t pid = forked();
    if (pid == 0) {
        char *own = map(fd);
        if (strcmp(own, "before") != 0)
            _exit(1);
        strcpy(own + FAR, "by the child");
        AWAIT(strcmp(own + 100, "after") == 0);
        _exit(munmap(own, BYTES));
    }
    AWAIT(strcmp(m + FAR, "by the child") == 0);
    strcpy(m + 100, "after");
    ends_well(pid, "a child that maps the file anew sees what its parent stores, and its parent what it stores");
    munmap(m, BYTES);
    close(fd);
}

static void written(void)
{
    int fd;
    char *m = make(&fd), byte = 0;
    m[0] = 'a';
    m[FAR] = 'b';
    pid_t pid = forked();
    if (pid == 0) {
        char bytes[2];
        if (pread(fd, bytes, 1, 0) != 1 || pread(fd, bytes + 1, 1, FAR) != 1 || memcmp(bytes, "ab", 2) != 0)
            _exit(1);
        _exit(pwrite(fd, "c", 1, FAR + 1) != 1);
    }
    ends_well(pid, "a child reads what is stored");
    check(m[FAR + 1] == 'c', "what it writes is in the mapping");
    m[FAR + 2] = 'd';
    check(pread(fd, &byte, 1, FAR + 1) == 1 && byte == 'c', "and in the file");
    munmap(m, BYTES);
    check(pread(fd, &byte, 1, FAR + 1) == 1 && byte == 'c' && pread(fd, &byte, 1, FAR + 2) == 1 && byte == 'd', "it stays there");
    close(fd);
}

static void programs(void)
{
    int fd;
    char *m = make(&fd);
    strcpy(m, "before");
    pid_t pid = other("programs");
    AWAIT(strcmp(m + FAR, "by the program") == 0);
    strcpy(m + 100, "after");
    ends_well(pid, "another program sees what is stored");
    check(strcmp(m + FAR, "by the program") == 0, "and what it stores is seen");
    munmap(m, BYTES);
    close(fd);
}
static void as_programs(char *m)
{
    need(strcmp(m, "before") == 0, "what was stored before");
    strcpy(m + FAR, "by the program");
    AWAIT(strcmp(m + 100, "after") == 0);
}

// Those of parallel.h are for one process.
static int wait_on(word_t *word)
{
    return syscall(SYS_futex, word, FUTEX_WAIT, OLD, NULL) == 0;
}
static int wake_one(word_t *word)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, 1) == 1;
}

// Nobody changes the word: who wakes has only Linux to find the waiter by.
static void woken(void)
{
    int fd;
    char *m = make(&fd);
    pid_t pid = other("woken");
    check(wait_on(word_in(m)), "woken by another program");
    ends_well(pid, "which has found the waiter");
    munmap(m, BYTES);
    close(fd);
}
static void as_woken(char *m)
{
    while (!wake_one(word_in(m)))
        sched_yield();
}

static void wakes(void)
{
    int fd;
    char *m = make(&fd);
    pid_t pid = other("wakes");
    while (!wake_one(word_in(m)))
        sched_yield();
    ends_well(pid, "wakes another program");
    munmap(m, BYTES);
    close(fd);
}
static void as_wakes(char *m)
{
    need(wait_on(word_in(m)), "woken");
}

// What the rank cuts off is gone for all, and what others add is there.
static void longer(void)
{
    int fd;
    char *m = make(&fd), byte = 0;
    m[FAR] = 'x';
    need(ftruncate(fd, PAGE_BYTES) == 0, "ftruncate");
    check(!can_read(m + FAR) && can_read(m), "what is cut off is gone");
    ends_well(other("longer"), "another program makes the file longer");
    check(can_read(m + FAR) && m[FAR] == 'y', "that is there");
    m[FAR] = 'z';
    check(pread(fd, &byte, 1, FAR) == 1 && byte == 'z', "and can be stored to");
    munmap(m, BYTES);
    close(fd);
}
static void as_longer(char *m)
{
    int fd = open("f", O_RDWR);
    need(fd >= 0 && pwrite(fd, "y", 1, FAR) == 1 && m[FAR] == 'y', "written");
}

static void touch_far(void *m)
{
    for (;;)
        (void)*(volatile char *)((char *)m + FAR);
}

// A node learns of it a moment after the first access.
static void cut(void)
{
    int fd;
    char *m = make(&fd);
    pid_t pid = other("cut");
    struct fault fault = fault_of(touch_far, m);
    check(fault.signo == SIGBUS && fault.code == BUS_ADRERR && fault.addr == m + FAR, "what another program cuts off is SIGBUS");
    strcpy(m, "seen");
    ends_well(pid, "which writes it anew");
    check(m[FAR] == 'y' && strcmp(m, "seen") == 0, "that is there, and what was not cut off");
    munmap(m, BYTES);
    close(fd);
}
static void as_cut(char *m)
{
    int fd = open("f", O_RDWR);
    need(fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0, "ftruncate");
    AWAIT(strcmp(m, "seen") == 0);
    need(pwrite(fd, "y", 1, FAR) == 1, "pwrite");
}

// So much mapped privately, and not to be written to, is text.
enum { TEXT_BYTES = 32 * PAGE_BYTES };

// Once what a node had heard late of one page ended a rank that was in its handler for another: its threads are on one core, and yield.
static atomic_int is_over;
static void yield_long(int signo)
{
    (void)signo;
    for (int64_t end = clock_ns(CLOCK_MONOTONIC) + MS; clock_ns(CLOCK_MONOTONIC) < end;)
        sched_yield();
}
static void *touch_all(void *m)
{
    while (!is_over)
        for (size_t page = 0; page < TEXT_BYTES; page += PAGE_BYTES)
            (void)*(volatile char *)((char *)m + page);
    return NULL;
}
static void emptied(void)
{
    enum { THREADS = 4 };
    struct sigaction action = {.sa_handler = yield_long}, old;
    pthread_t threads[THREADS];
    int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, TEXT_BYTES) == 0, "f");
    char *m = mmap(NULL, TEXT_BYTES, RW, MAP_SHARED, fd, 0);
    need(m != MAP_FAILED && sigaction(SIGBUS, &action, &old) == 0, "mmap");
    is_over = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(touch_all, m);
    ends_well(other("emptied"), "another program empties a file again and again that threads read");
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        joined(threads[i]);
    sigaction(SIGBUS, &old, NULL);
    munmap(m, TEXT_BYTES);
    close(fd);
}
static void as_emptied(char *m)
{
    enum { TIMES = 200, EMPTY_US = 200, FULL_US = 1000 };
    (void)m;
    for (int i = 0; i < TIMES; i++) {
        need(truncate("f", 0) == 0 && usleep(EMPTY_US) == 0, "truncate");
        need(truncate("f", TEXT_BYTES) == 0 && usleep(FULL_US) == 0, "truncate");
    }
}

static void text(void)
{
    int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, TEXT_BYTES) == 0, "f");
    char *m = mmap(NULL, TEXT_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    need(m != MAP_FAILED && m[FAR] == 0, "mmap");
    need(pwrite(fd, "written", 8, FAR) == 8, "pwrite");
    check(strcmp(m + FAR, "written") == 0, "what is written to a file is seen where it is mapped privately");
    ends_well(other("text"), "another program stores to it");
    check(strcmp(m + FAR, "by the program") == 0, "that is seen as well");
    need(mprotect(m, PAGE_BYTES, RW) == 0, "mprotect");
    strcpy(m, "own");
    ends_well(other("text"), "another program stores to it");
    check(strcmp(m, "own") == 0 && m[100] == 1 && can_read(m + FAR), "a page that the program has written to is its own");
    ends_well(other("cut_text"), "another program cuts the file");
    struct fault fault = fault_of(touch_far, m);
    check(fault.signo == SIGBUS && fault.code == BUS_ADRERR && fault.addr == m + FAR, "SIGBUS");
    check(!can_read(m + FAR) && !can_read(m + TEXT_BYTES - 1) && strcmp(m, "own") == 0, "it stays gone, and what is the program's own is there");
    munmap(m, TEXT_BYTES);
    close(fd);
}
static void as_text(char *m)
{
    strcpy(m + FAR, "by the program");
    m[100]++;
}
static void as_cut_text(char *m)
{
    (void)m;
    need(truncate("f", PAGE_BYTES) == 0, "truncate");
}

static long attached(int id)
{
    struct shmid_ds status;
    need(shmctl(id, IPC_STAT, &status) == 0, "shmctl");
    return (long)status.shm_nattch;
}

static void segment(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    char *m = shmat(id, NULL, 0);
    need(m != (char *)-1, "shmat");
    strcpy(m, "before");
    check(attached(id) == 1, "attached once");
    pid_t pid = forked();
    if (pid == 0) {
        if (shmdt(m) != 0)
            _exit(1);
        char *own = shmat(id, NULL, 0);
        if (own == (char *)-1 || strcmp(own, "before") != 0)
            _exit(2);
        strcpy(own + FAR, "by the child");
        _exit(0);
    }
    ends_well(pid, "a child has it, too, and attaches it anew");
    check(strcmp(m + FAR, "by the child") == 0, "its parent sees what it stores");
    char *twice = shmat(id, NULL, SHM_RDONLY);
    check(twice != (char *)-1 && strcmp(twice + FAR, "by the child") == 0 && attached(id) == 2, "attached twice");
    check(shmdt(m) == 0 && shmdt(twice) == 0 && attached(id) == 0, "and not at all");
    need(shmctl(id, IPC_RMID, NULL) == 0, "shmctl");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(char *m);
    } others[] = {{"programs", as_programs}, {"woken", as_woken}, {"wakes", as_wakes}, {"longer", as_longer}, {"cut", as_cut}, {"emptied", as_emptied}, {"text", as_text}, {"cut_text", as_cut_text}};
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "the program's path");
    for (size_t i = 0; argc == 3 && strcmp(argv[1], "as") == 0 && i < sizeof others / sizeof *others; i++)
        if (strcmp(argv[2], others[i].name) == 0) {
            int fd = open("f", O_RDWR);
            need(fd >= 0, "open");
            others[i].run(map(fd));
            return 0;
        }
    static const struct test_case cases[] = {
        CASE(again), CASE(written), CASE(programs), CASE(woken), CASE(wakes), CASE(longer), CASE(cut), CASE(emptied), CASE(text), CASE(segment),
    };
    return RUN_CASES(cases);
}
