// A rank that is looked into while it runs: one thread computes, one opens a pipe that has no writer and reads from it, one waits for a
// semaphore. It ends with 3 once it has read a byte, if no call was disturbed.
//
//   looked_into PIPE [forbids]

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../common/check.h"

volatile long turns;
static volatile int is_read;
static sem_t never;

__attribute__((noinline)) static void computes(void)
{
    while (!is_read)
        turns++;
}

__attribute__((noinline)) static void *reads(void *path)
{
    char byte = 0;
    int pipe = open(path, O_RDONLY);
    need(pipe == 3, "pipe == 3");
    need(read(pipe, &byte, 1) == 1 && byte == 'b', "byte == 'b'");
    is_read = 1;
    return NULL;
}

__attribute__((noinline)) static void *waits(void *unused)
{
    (void)unused;
    need(sem_wait(&never) == 0, "sem_wait");
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    need(argc > 1 && sem_init(&never, 0, 0) == 0, "sem_init");
    if (argc > 2)
        need(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl");
    need(pthread_create(&threads[0], NULL, reads, argv[1]) == 0, "pthread_create");
    need(pthread_create(&threads[1], NULL, waits, NULL) == 0, "pthread_create");
    puts("up");
    fflush(stdout);
    computes();
    need(pthread_join(threads[0], NULL) == 0, "pthread_join");
    need(sem_post(&never) == 0 && pthread_join(threads[1], NULL) == 0, "pthread_join");
    return 3;
}
