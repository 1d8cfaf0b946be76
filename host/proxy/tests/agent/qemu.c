/* In QEMU's place: maps the pool as that does, and touches what it is requested to by lines of its standard input.
 *
 *     qemu POOL HANDLER      the pool's descriptor; "handler": SIGBUS has one, which exits with 42
 *
 *     read OFFSET            prints the byte there
 *     write OFFSET BYTE      stores it, prints it
 *     as NAME OFFSET         prints the byte there, as a thread of that name finds it (_ is a blank), with all signals blocked
 *     storm OFFSET PAGES     threads store into each page at the same time; prints how many stores were lost
 *     touch OFFSET PAGES     threads read the first byte of each page for ever; prints 0
 *     variable NAME          prints the variable
 *     bus                    touches what lies behind the end of a file that is not the pool
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4 };

static volatile unsigned char *pool;
static long at, pages;
static char name[16];
static pthread_barrier_t barrier;
static unsigned char found;

static void on_bus_error(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)info;
    (void)context;
    _exit(42);
}

static void *read_named(void *unused)
{
    pthread_setname_np(pthread_self(), name);
    found = pool[at];
    return unused;
}

static void *touch(void *unused)
{
    for (;;)
        for (long page = 0; page < pages; page++)
            (void)pool[at + page * PAGE];
    return unused;
}

static void *store(void *slot)
{
    for (long page = 0; page < pages; page++) {
        pthread_barrier_wait(&barrier);
        pool[at + page * PAGE + *(int *)slot] = 1;
    }
    return NULL;
}

/* As QEMU starts its threads. */
static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(thread, NULL, run, argument) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int storm(void)
{
    pthread_t threads[THREADS];
    int slots[THREADS], lost = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        slots[i] = i;
        start(&threads[i], store, &slots[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (long page = 0; page < pages; page++)
        for (int i = 0; i < THREADS; i++)
            lost += pool[at + page * PAGE + i] != 1;
    return lost;
}

static void touch_other(void)
{
    int other = memfd_create("other", 0);
    volatile char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
    (void)*page;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    char line[256];
    int descriptor = argc > 1 ? atoi(argv[1]) : -1, byte;
    struct stat status;
    pthread_t thread;
    if (argc > 2 && strcmp(argv[2], "handler") == 0)
        sigaction(SIGBUS, &action, NULL);
    if (fstat(descriptor, &status) != 0)
        return 1;
    pool = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (pool == MAP_FAILED)
        return 1;
    puts("here");
    for (; fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL;) {
        if (sscanf(line, "read %ld", &at) == 1) {
            printf("%d\n", pool[at]);
        } else if (sscanf(line, "write %ld %d", &at, &byte) == 2) {
            pool[at] = (unsigned char)byte;
            printf("%d\n", pool[at]);
        } else if (sscanf(line, "as %15s %ld", name, &at) == 2) {
            for (char *blank; (blank = strchr(name, '_')) != NULL;)
                *blank = ' ';
            start(&thread, read_named, NULL);
            pthread_join(thread, NULL);
            printf("%d\n", found);
        } else if (sscanf(line, "storm %ld %ld", &at, &pages) == 2) {
            printf("%d\n", storm());
        } else if (sscanf(line, "touch %ld %ld", &at, &pages) == 2) {
            for (int i = 0; i < THREADS; i++)
                start(&thread, touch, NULL);
            puts("0");
        } else if (sscanf(line, "variable %15s", name) == 1) {
            const char *value = getenv(name);
            puts(value == NULL ? "none" : value);
        } else if (strcmp(line, "bus\n") == 0) {
            touch_other();
        }
    }
    return 0;
}
