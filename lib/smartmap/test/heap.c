/*
 * The heap stays a correct heap: random malloc, realloc, free on several
 * threads with contents checked; exhaustion of a small arena falls back to
 * Linux.  Mode "plain": no arena must exist (ulimit -v, SMARTMAP_DISABLE, a
 * refused memfd) and the program must not notice.  Mode "lock": mlockall;
 * "refused": madvise is.
 */
#include "harness.h"
#include <pthread.h>
#include <sys/resource.h>

enum { BLOCKS = 512, STEPS = 20000, THREADS = 3 };

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *block[BLOCKS] = { 0 };
    size_t bytes[BLOCKS] = { 0 };
    for (int step = 0; step < STEPS; step++) {
        int i = rand_r(&seed) % BLOCKS;
        size_t want = (size_t)1 << (rand_r(&seed) % (step % 500 == 0 ? 23 : 14));
        for (size_t j = 0; j < bytes[i]; j += 509)
            CHECK(block[i][j] == (unsigned char)i);
        if (rand_r(&seed) % 3 == 0) {
            free(block[i]);
            block[i] = NULL;
            bytes[i] = 0;
            continue;
        }
        block[i] = realloc(block[i], want);
        CHECK(block[i] != NULL);
        memset(block[i], i, want);
        bytes[i] = want;
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    return NULL;
}

static void exhaust(void)
{
    enum { PIECE = 8 << 20 };
    int inside = 0, outside = 0;
    char *pieces[40];
    for (int i = 0; i < 40; i++) {
        pieces[i] = calloc(1, PIECE);
        CHECK(pieces[i] != NULL);
        for (int j = 0; j < PIECE; j += 4096) {
            CHECK(pieces[i][j] == 0);
            pieces[i][j] = 1;
        }
        *(smartmap_exports(pieces[i], PIECE) ? &inside : &outside) += 1;
    }
    CHECK(outside > 0);
    CHECK(inside > 0);
    for (int i = 0; i < 40; i++)
        free(pieces[i]);
}

/** Does proc(5)'s smaps show a mapping of the arena that core dumps hold? */
static int is_dumped(const void *address, size_t *all_bytes)
{
    char line[512];
    unsigned long start, end, bytes = 0, low = 64UL << 30, high = 192UL << 30;
    int inside = 0, here = 0, found = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    CHECK(smaps != NULL);
    *all_bytes = 0;
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            bytes = end - start;
            inside = start >= low && end <= high;
            here = inside && (unsigned long)address >= start && (unsigned long)address < end;
        }
        if (inside && strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " dd")) {
            *all_bytes += bytes;
            found |= here;
        }
    }
    fclose(smaps);
    return found;
}

/**
 * Core dumps held the whole arena, 128 GiB, and allocated it to write it: a node
 * ran out of memory.  They hold what the allocator has taken, and all of that.
 */
static void see_what_is_dumped(void)
{
    enum { MIB = 1 << 20 };
    size_t before, after, freed;
    char *block = malloc(300 * MIB);
    CHECK(block != NULL && smartmap_exports(block, 300 * MIB));
    CHECK(is_dumped(block, &before) && is_dumped(block + 300 * MIB - 1, &after));
    CHECK(after >= 300 * MIB && after < (size_t)4096 * MIB);
    free(block);
    is_dumped(NULL, &freed);
    CHECK(freed <= before);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/** Each step of a program that frees its memory and takes it again had page faults for it. */
static void see_that_freed_memory_is_kept(void)
{
    enum { BYTES = 4 << 20, PAGES = BYTES / 4096, TIMES = 8, EACH_MS = 40, TOGETHER = 3 };
    struct rusage before, after;
    char *block[TOGETHER];
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < TOGETHER; k++) {
            block[k] = malloc(BYTES);
            CHECK(block[k] != NULL);
            memset(block[k], i, BYTES);
        }
        for (int k = 0; k < TOGETHER; k++) {
            free(block[k]); /* and mimalloc looks for what was freed long ago */
            for (int64_t end = now_ms() + EACH_MS; now_ms() < end;)
                ;
        }
    }
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(after.ru_minflt - before.ru_minflt < 2 * TOGETHER * PAGES);
}

/** It took all memory, page by page, of the arena. */
static void lock_all(void)
{
    enum { MIB = 1 << 20 };
    static char unused[8 * MIB];
    struct rusage usage;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        CHECK(errno == EPERM || errno == ENOMEM); /* no right to: said by Linux */
        return;
    }
    char *later = calloc(1, 4 * MIB);
    unsigned char resident[8 * MIB / 4096];
    CHECK(later != NULL && later[MIB] == 0);
    char *page = (char *)(((uintptr_t)unused + 4095) / 4096 * 4096);
    CHECK(mincore(page, 4 * MIB, resident) == 0 && (resident[0] & 1) && (resident[1000] & 1));
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < 2048 * 1024);
    CHECK(munlockall() == 0);
    free(later);
}

int rank_main(int rank, int size, const char *mode)
{
    (void)size;
    pthread_t threads[THREADS];
    if (strcmp(mode, "plain") == 0) {
        CHECK(smartmap_provider_abi != NULL); /* loaded, and stands aside */
        CHECK(smartmap_rank() == -1 && smartmap_join(0) != 0);
        CHECK(!smartmap_exports(malloc(100), 100));
    } else {
        CHECK(smartmap_rank() == rank);
        CHECK(smartmap_exports(malloc(100), 100));
    }
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, churn, (void *)(uintptr_t)(t + 1)) == 0);
    churn((void *)99);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    if (strcmp(mode, "small") == 0)
        exhaust();
    else if (strcmp(mode, "") == 0) {
        see_what_is_dumped();
        see_that_freed_memory_is_kept();
    }
    if (strcmp(mode, "lock") == 0)
        lock_all();
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
