/*
 * fork after start, by all that libc has for it: the child owns a copy of the
 * heap as of the fork, neither side sees the other's later writes, and the
 * child is no rank.
 *
 *     test-forks LIBRARY RANKS [closed|guarded]
 *
 * closed: with other files in place of the preload's; guarded: with a page in the
 * heap that may not be read, so that there are no windows.
 */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>

enum { BYTES = 3 << 20, CHILDREN = 20 };

static char *guard; /* the page after it may not be read, as those that guard stacks */

static void make_guard(void)
{
    guard = aligned_alloc(4096, 3 * 4096);
    CHECK(guard != NULL);
    memset(guard, 7, 3 * 4096);
    CHECK(mprotect(guard + 4096, 4096, PROT_NONE) == 0);
}

static void child(volatile char *heap)
{
    CHECK(smartmap_rank() == -1);
    CHECK(!guard || mprotect(guard + 4096, 4096, PROT_READ) == 0);
    for (int i = 0; guard && i < 3; i++)
        CHECK(guard[i * 4096] == 7);
    for (int i = 0; i < BYTES; i += 4096)
        CHECK(heap[i] == 1);
    memset((char *)heap, 3, BYTES);
    for (int i = 0; i < 1000; i++) {
        char *p = malloc((size_t)i * 100 + 1);
        CHECK(p != NULL);
        memset(p, 9, (size_t)i * 100 + 1);
        free(p);
    }
    fflush(NULL);
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(heap[5] == 3 ? 0 : 1);
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    _exit(0);
}

static int cloned(void *heap)
{
    child(heap);
    return 1;
}

/** These two shared the heap with their child: only fork runs atfork handlers. */
static pid_t fork_by_clone(char *heap)
{
    static _Alignas(16) char stack[1 << 20];
    return clone(cloned, stack + sizeof stack, SIGCHLD, heap);
}

static pid_t fork_by(int way, char *heap)
{
    pid_t pid = way == 2 ? fork_by_clone(heap) : way == 1 ? _Fork() : fork();
    if (pid == 0)
        child(heap);
    return pid;
}

/** Two threads that fork at once had one copy. */
static void *fork_often(void *unused)
{
    char *heap = malloc(BYTES);
    (void)unused;
    CHECK(heap != NULL);
    memset(heap, 1, BYTES);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            for (int j = 0; j < BYTES; j += 4096)
                if (heap[j] != 1)
                    _exit(1);
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    free(heap);
    return NULL;
}

/** What programs close that do not know of it lies from 960 on. */
static void replace_descriptors(void)
{
    int null = open("/dev/null", O_RDONLY);
    CHECK(null >= 0);
    for (int fd = 900; fd < 1000; fd++)
        CHECK(dup2(null, fd) == fd);
}

int rank_main(int rank, int size, const char *mode)
{
    pthread_t thread;
    CHECK(smartmap_join(10000) == 0);
    meet(3, size);
    if (strcmp(mode, "closed") == 0)
        replace_descriptors();
    if (strcmp(mode, "guarded") == 0)
        make_guard();
    char *heap = malloc(BYTES);
    memset(heap, 1, BYTES);
    board->address[rank] = heap;
    meet(0, size);
    for (int round = 0; round < 6; round++) {
        pid_t pid = fork_by(round % 3, heap);
        memset(heap, 2, BYTES);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        for (int i = 0; i < BYTES; i += 4096)
            CHECK(heap[i] == 2);
        memset(heap, 1, BYTES);
    }
    CHECK(system("exit 3") == 3 << 8);
    CHECK(pthread_create(&thread, NULL, fork_often, NULL) == 0);
    fork_often(NULL);
    pthread_join(thread, NULL);
    meet(1, size);
    int next = (rank + 1) % size; /* windows still show the parent */
    CHECK(size == 1 || guard || smartmap_reachable(next, board->address[next], BYTES));
    CHECK(size == 1 || guard ||
          *(char *)smartmap_remote((unsigned)next, board->address[next]) == 1);
    meet(2, size);
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
