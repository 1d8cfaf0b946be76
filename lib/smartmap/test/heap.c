/*
 * The heap stays a correct heap: random malloc, realloc, free on several
 * threads with contents checked; exhaustion of a small arena falls back to
 * Linux.  Mode "plain": no arena must exist (ulimit -v, SMARTMAP_DISABLE, a
 * refused memfd) and the program must not notice.
 */
#include "harness.h"
#include <pthread.h>

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
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
