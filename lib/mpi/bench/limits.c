/*
 * What the machine allows between two cores: flag one-way time, and copying
 * 1 MB once and twice through shared memory.  A limit is the best that is seen.
 *
 *     limits CPU_A CPU_B      prints  name value unit
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 1000, SAMPLES = 201, BYTES = 1 << 20, PLACES = 8 };

struct flags {
    _Alignas(128) _Atomic uint64_t to;
    _Alignas(128) _Atomic uint64_t back;
};

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "limits: cannot run on CPU %d alone\n", cpu);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void echo(struct flags *f)
{
    for (uint64_t i = 1; i <= (uint64_t)ROUNDS * SAMPLES; i++) {
        while (atomic_load_explicit(&f->to, memory_order_acquire) < i)
            __builtin_ia32_pause();
        atomic_store_explicit(&f->back, i, memory_order_release);
    }
}

static double flag_one_way_ns(struct flags *f)
{
    double least = 1e9;
    uint64_t i = 0;
    for (int s = 0; s < SAMPLES; s++) {
        double start = now();
        for (int r = 0; r < ROUNDS; r++) {
            atomic_store_explicit(&f->to, ++i, memory_order_release);
            while (atomic_load_explicit(&f->back, memory_order_acquire) < i)
                __builtin_ia32_pause();
        }
        double t = (now() - start) / ROUNDS / 2 * 1e9;
        least = t < least ? t : least;
    }
    return least;
}

/** GB/s of payload with one copy, or with a bounce through 8 KiB pieces. */
static double copy_rate(char *to, const char *from, char *bounce)
{
    enum { PIECE = 8192 };
    double most = 0;
    for (int s = 0; s < SAMPLES; s++) {
        size_t at = (size_t)(s % PLACES) * BYTES;
        double start = now();
        for (size_t i = 0; bounce && i < BYTES; i += PIECE) {
            memcpy(bounce, from + at + i, PIECE);
            memcpy(to + at + i, bounce, PIECE);
        }
        if (!bounce)
            memcpy(to + at, from + at, BYTES);
        double rate = BYTES / (now() - start) * 1e-9;
        most = rate > most ? rate : most;
    }
    return most;
}

int main(int argc, char **argv)
{
    int first = argc > 1 ? atoi(argv[1]) : 0, second = argc > 2 ? atoi(argv[2]) : 1;
    size_t area = (size_t)BYTES * PLACES;
    char *shared = mmap(NULL, 2 * area + 8192, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct flags *f = (struct flags *)(shared + 2 * area);
    if (shared == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        pin(second);
        memset(shared, 1, area); /* the data begins in the other core's cache */
        echo(f);
        _exit(0);
    }
    pin(first);
    double one_way = flag_one_way_ns(f);
    char *private = malloc(area), *bounce = malloc(8192);
    memset(private, 0, area);
    printf("flag_one_way %.1f ns\n", one_way);
    printf("copy_once_1MB %.2f GB/s\n", copy_rate(private, shared, NULL));
    printf("copy_twice_1MB %.2f GB/s\n", copy_rate(private, shared, bounce));
    waitpid(child, NULL, 0);
    return 0;
}
