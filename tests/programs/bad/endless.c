// Never ends by itself, in the way its argument names: spin (computing), calls
// (making system calls), read (a pipe without a writer), sleep, ignore (spins
// with all signals ignored and blocked), print (output without end), stop (stops
// itself, again and again), map (a shared file that it maps, stores to and unmaps).
#include "../common/check.h"
#include <sys/mman.h>
#include <time.h>

static void map(void)
{
    enum { BYTES = 16 * PAGE_BYTES };
    int file = memfd_create("mapped", 0);
    need(ftruncate(file, BYTES) == 0, "a file");
    for (;;) {
        char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        need(at != MAP_FAILED, "mmap");
        memset(at, 'x', BYTES);
        need(munmap(at, BYTES) == 0, "munmap");
    }
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "spin";
    int ends[2];
    char c;
    sigset_t all;
    printf("never ending: %s\n", way);
    fflush(stdout);
    if (strcmp(way, "calls") == 0)
        for (;;)
            getppid();
    if (strcmp(way, "read") == 0 && pipe(ends) == 0)
        read(ends[0], &c, 1);
    if (strcmp(way, "sleep") == 0)
        for (;;)
            nanosleep(&(struct timespec){1000000, 0}, NULL);
    if (strcmp(way, "stop") == 0)
        for (;;)
            raise(SIGSTOP);
    if (strcmp(way, "print") == 0)
        for (;;)
            puts("and on and on and on");
    if (strcmp(way, "map") == 0)
        map();
    if (strcmp(way, "ignore") == 0) {
        for (int signo = 1; signo < 65; signo++)
            signal(signo, SIG_IGN);
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
    }
    for (volatile uint64_t i = 0;; i++)
        ;
}
