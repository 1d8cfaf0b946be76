// A file that ranks, two children and a stranger map, read, write, cut and sync at the same time: `files SEED STEPS`, and
// `files SEED STEPS ACTOR ACTORS`, which is the stranger.
//
// In a step each writes to slots of its own, in one way or another, or one changes the length of the file while the others touch it. When all
// have done the step, each compares the file with what it must hold, by its mapping, by a private one and by calls.
#include "files.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { CHILDREN = 2, LIMIT_S = 100, TEXT_BYTES = 64 << 10, TOUCHES = 4 };

// How far each actor has come, in a file of its own.
struct board {
    _Atomic uint64_t done[MOST_ACTORS];
};

static char self[PATH_MAX]; // a child's /proc/self/exe is another program
static unsigned own;
static uint64_t step, faults, resizes, texts;
static int fd;
static struct board *board;
static unsigned char *map;

static void fail(const char *what, uint64_t at, uint64_t found)
{
    dprintf(1, "FAIL actor %u of %u, step %lu, %lu bytes: %s: %#lx, %#lx (errno %d)\n", own, actors, step, model.len, what, at, found, errno);
    _exit(1);
}
#define must(condition) ((condition) ? (void)0 : fail(#condition, 0, 0))

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

// Waits until all have come to this.
static void meet(void)
{
    uint64_t mine = ++board->done[own];
    int64_t end = now() + LIMIT_S;
    for (unsigned actor = 0; actor < actors; actor++)
        while (board->done[actor] < mine) {
            if (now() > end)
                fail("who does not come", actor, board->done[actor]);
            sched_yield();
        }
}

static unsigned char *mapped(int protection, int flags, uint64_t at, uint64_t bytes)
{
    unsigned char *p = mmap(NULL, bytes, protection, flags, fd, (off_t)at);
    must(p != MAP_FAILED);
    return p;
}

// ---- Pages that are not there ---------------------------------------------------

static sigjmp_buf back;
static unsigned char *volatile guarded; // a page; NULL: none

// A node says late of what others have cut off: for a page that is not touched any more.
static void caught(int signo, siginfo_t *info, void *context)
{
    (void)context;
    uint64_t at = (uint64_t)info->si_addr & ~(uint64_t)(PAGE_BYTES - 1);
    faults++;
    if (guarded != NULL && at == (uint64_t)guarded)
        siglongjmp(back, 1);
    if (signo != SIGBUS || faults > 1000000)
        fail("a signal", (uint64_t)info->si_addr, (uint64_t)signo);
}

// Whether a page can be read now.
static int is_there(unsigned char *page)
{
    volatile int there = 1;
    guarded = page;
    if (sigsetjmp(back, 1) == 0)
        (void)*(volatile unsigned char *)page;
    else
        there = 0;
    guarded = NULL;
    return there;
}

static void touch_while_it_is_cut(void)
{
    for (uint64_t touch = 0; touch < TOUCHES; touch++) {
        uint64_t at = chosen(step, own, 100 + touch, PAGES) * PAGE_BYTES;
        is_there(map + at);
    }
}

// ---- Steps ----------------------------------------------------------------------

static void store(unsigned char *to, const struct write *write) { memcpy(to, write->words, SLOT_BYTES); }

static void store_elsewhere(const struct write *write)
{
    uint64_t page = write->at & ~(uint64_t)(PAGE_BYTES - 1);
    unsigned char *p = mapped(PROT_READ | PROT_WRITE, MAP_SHARED, page, PAGE_BYTES);
    store(p + (write->at - page), write);
    must(munmap(p, PAGE_BYTES) == 0);
}

static void do_write(const struct write *write)
{
    uint64_t page = write->at & ~(uint64_t)(PAGE_BYTES - 1), read[SLOT_WORDS];
    switch (write->how) {
    case STORED: store(map + write->at, write); break;
    case STORED_AND_SYNCED:
        store(map + write->at, write);
        must(msync(map + page, PAGE_BYTES, write->words[0] & 256 ? MS_SYNC : MS_ASYNC) == 0);
        break;
    case STORED_ELSEWHERE: store_elsewhere(write); break;
    case WRITTEN: must(pwrite(fd, write->words, SLOT_BYTES, (off_t)write->at) == SLOT_BYTES); break;
    default:
        must(pwrite(fd, write->words, SLOT_BYTES, (off_t)write->at) == SLOT_BYTES);
        must(sync_file_range(fd, (off_t)page, PAGE_BYTES, SYNC_FILE_RANGE_WRITE) == 0);
    }
    if (memcmp(map + write->at, write->words, SLOT_BYTES) != 0)
        fail("it is not in the mapping", write->at, write->how);
    must(pread(fd, read, SLOT_BYTES, (off_t)write->at) == SLOT_BYTES);
    if (memcmp(read, write->words, SLOT_BYTES) != 0)
        fail("it is not in the file", write->at, write->how);
}

static void resize(const struct change *change)
{
    switch (change->how) {
    case CUT: must(truncate("data", (off_t)change->len) == 0); break;
    case EMPTIED:
        must(close(open("data", O_WRONLY | O_TRUNC)) == 0);
        must(ftruncate(fd, (off_t)change->len) == 0);
        break;
    case PUNCHED: must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)change->from, PAGE_BYTES) == 0); break;
    default: must(change->len == model.len || fallocate(fd, 0, (off_t)model.len, (off_t)(change->len - model.len)) == 0);
    }
}

static void compare(const unsigned char *found, const char *what)
{
    for (uint64_t at = 0; at < model.len; at++)
        if (found[at] != model.bytes[at])
            fail(what, at, found[at]);
}

static void compare_all(void)
{
    static unsigned char read[BYTES];
    struct stat status;
    must(fstat(fd, &status) == 0 && (uint64_t)status.st_size == model.len);
    compare(map, "the mapping");
    must(pread(fd, read, BYTES, 0) == (ssize_t)model.len);
    compare(read, "the file");
    if (model.len >= TEXT_BYTES && (step == 0 || chosen(step, own, 200, 4) == 0)) {
        unsigned char *text = mapped(PROT_READ, MAP_PRIVATE, 0, model.len);
        compare(text, "a private mapping");
        must(munmap(text, model.len) == 0);
        texts++;
    }
    uint64_t pages = (model.len + PAGE_BYTES - 1) / PAGE_BYTES;
    if (pages < PAGES) {
        // Until the node has heard of it there are zeros.
        unsigned char *behind = map + (pages + chosen(step, own, 201, PAGES - pages)) * PAGE_BYTES;
        for (int64_t end = now() + LIMIT_S; is_there(behind);)
            if (now() > end)
                fail("it is there behind the end", (uint64_t)(behind - map), *behind);
    }
    if (chosen(step, own, 202, 8) == 0) {
        must(munmap(map, BYTES) == 0);
        map = mapped(PROT_READ | PROT_WRITE, MAP_SHARED, 0, BYTES);
    }
}

static void take_step(void)
{
    if (is_resize(step)) {
        struct change change = change_of(step);
        if (change.actor == own)
            resize(&change);
        else
            touch_while_it_is_cut();
        take(&change);
        resizes++;
    } else {
        for (uint64_t number = 0; number < WRITES; number++) {
            struct write write;
            if (write_of(step, own, number, &write))
                do_write(&write);
        }
        take_writes(step);
    }
    meet();
    compare_all();
    meet();
}

// ---- Actors ---------------------------------------------------------------------

static int find(const char *name, int is_maker, uint64_t bytes)
{
    int found, flags = is_maker ? O_CREAT | O_RDWR : O_RDWR;
    while ((found = open(name, flags, 0600)) < 0)
        sched_yield();
    if (is_maker)
        must(ftruncate(found, (off_t)bytes) == 0);
    while (lseek(found, 0, SEEK_END) < (off_t)bytes)
        sched_yield();
    return found;
}

static void begin(int is_maker)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGBUS, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    int boards = find("board", is_maker, sizeof *board);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, boards, 0);
    must(board != MAP_FAILED && close(boards) == 0);
    fd = find("data", is_maker, BYTES);
    map = mapped(PROT_READ | PROT_WRITE, MAP_SHARED, 0, BYTES);
    model.len = BYTES;
}

static void act(uint64_t steps)
{
    meet();
    for (step = 0; step < steps; step++)
        take_step();
}

// A child with all that this process has, or one that has the file alone.
static pid_t start(unsigned actor, char **argv)
{
    pid_t pid = forked();
    if (pid != 0)
        return pid;
    own = actor;
    if (actor == actors - 1) {
        char numbers[2][24];
        snprintf(numbers[0], sizeof numbers[0], "%u", actor);
        snprintf(numbers[1], sizeof numbers[1], "%u", actors);
        execve(self, (char *[]){argv[0], argv[1], argv[2], numbers[0], numbers[1], NULL}, (char *[]){NULL});
        _exit(98);
    }
    act((uint64_t)atoll(argv[2]));
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    must(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    seed = (uint64_t)atoll(argv[1]);
    const char *rank = getenv("MARGAY_RANK"), *size = getenv("MARGAY_SIZE");
    unsigned ranks = size ? (unsigned)atoi(size) : 1;
    int is_stranger = argc == 5;
    own = is_stranger ? (unsigned)atoi(argv[3]) : rank ? (unsigned)atoi(rank) : 0;
    actors = is_stranger ? (unsigned)atoi(argv[4]) : ranks + CHILDREN + 1;
    must(actors <= MOST_ACTORS);
    begin(own == 0);
    // Rank 0 has them all, and still the node's ranks meet what others of them have mapped.
    pid_t pids[CHILDREN + 1];
    for (unsigned i = 0; own == 0 && i < CHILDREN + 1; i++)
        pids[i] = start(ranks + i, argv);
    act((uint64_t)atoll(argv[2]));
    for (unsigned i = 0; own == 0 && i < CHILDREN + 1; i++) {
        int status;
        must(waitpid(pids[i], &status, 0) == pids[i]);
        if (status != 0)
            fail("a child ended", ranks + i, (uint64_t)status);
    }
    if (is_stranger)
        return 0;
    printf("%lu steps\n%lu resizes\n%lu faults\n%lu texts\n", step, resizes, faults, texts);
    return 0;
}
