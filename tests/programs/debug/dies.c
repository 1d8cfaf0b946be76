// For core files and gdb: threads that compute, wait in a call and wait for a lock while the main thread dies.
//
//   dies ALONE|TOGETHER WAY   WAY: null, abort, deep (a chain of calls in a library's callback)

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_barrier_t ready;
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static volatile int go_on = 1;
// Those that are about to wait: their thread ids.
static volatile int called[2];
int shown = 4711;
char *hidden;
__thread int mine = 5;

__attribute__((noinline)) static void computes(int depth)
{
    if (depth > 0)
        computes(depth - 1);
    else
        pthread_barrier_wait(&ready);
    while (go_on)
        ;
}

__attribute__((noinline)) static void waits(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        abort();
    pthread_barrier_wait(&ready);
    called[0] = gettid();
    while (read(ends[0], &byte, 1) != 0)
        ;
}

__attribute__((noinline)) static void locks(void)
{
    pthread_barrier_wait(&ready);
    called[1] = gettid();
    pthread_mutex_lock(&taken);
}

// Whether a thread of this process sleeps. Margay's says so of each that Linux does nothing for.
static int sleeps(int tid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        abort();
    fclose(file);
    return strstr(line, ") S ") != NULL;
}

// Until the other two are in their calls: past the barrier they sleep nowhere else, and on a core that they share with this thread
// each has had several turns.
static void await_calls(void)
{
    enum { TURNS = 10 };
    for (int i = 0; i < 2; i++)
        for (int turns = 0; turns < TURNS; sched_yield())
            turns = called[i] != 0 && sleeps(called[i]) ? turns + 1 : 0;
}

static void *computer(void *arg) { computes(3); return arg; }
static void *waiter(void *arg) { waits(); return arg; }
static void *locker(void *arg) { locks(); return arg; }

__attribute__((noinline)) static void dies(volatile int *at) { *at = 1; }

static int compare(const void *a, const void *b)
{
    dies((int *)8);
    return a < b;
}

int main(int argc, char **argv)
{
    void *(*const bodies[])(void *) = {computer, waiter, locker};
    const int together = argc > 1 && strcmp(argv[1], "together") == 0;
    const char *way = argc > 2 ? argv[2] : "null";

    hidden = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(hidden, "left out");
    strcpy(hidden + 4096, "dumped");
    madvise(hidden, 8192, MADV_DONTDUMP);
    madvise(hidden + 4096, 4096, MADV_DODUMP);
    mine = 6;
    if (together) {
        pthread_t thread;
        pthread_mutex_lock(&taken);
        pthread_barrier_init(&ready, NULL, 4);
        for (int i = 0; i < 3; i++)
            pthread_create(&thread, NULL, bodies[i], NULL);
        pthread_barrier_wait(&ready);
        await_calls();
    }
    if (strcmp(way, "forbidden") == 0)
        prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "deep") == 0) {
        int numbers[4] = {3, 1, 2, 0};
        qsort(numbers, 4, sizeof *numbers, compare);
    }
    dies(NULL);
}
