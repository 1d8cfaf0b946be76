// Threads that allocate and free at the same time: what one has is no other's. `allocations CASE [ROUNDS]`.
#include "../common/parallel.h"

static long rounds = 60;
static atomic_int wrong;

// A small generator per thread: the same numbers each time.
static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void *allocate(void *arg)
{
    enum { HELD = 32 };
    unsigned char *held[HELD] = {0};
    size_t sizes[HELD] = {0};
    uint32_t state = (uint32_t)(intptr_t)arg;
    for (long i = 0; i < 10 * rounds; i++) {
        int slot = (int)(next(&state) % HELD);
        wrong += !all_bytes(held[slot], slot + (int)(intptr_t)arg, sizes[slot]);
        free(held[slot]);
        sizes[slot] = next(&state) % 64 == 0 ? 200000 : next(&state) % 2000;
        held[slot] = malloc(sizes[slot]);
        memset(held[slot], slot + (int)(intptr_t)arg, sizes[slot]);
    }
    for (int slot = 0; slot < HELD; slot++)
        free(held[slot]);
    return NULL;
}
static void allocations(void)
{
    pthread_t threads[8];
    wrong = 0;
    for (intptr_t i = 0; i < 8; i++)
        threads[i] = start(allocate, (void *)(i + 1));
    for (int i = 0; i < 8; i++)
        joined(threads[i]);
    check(wrong == 0, "eight threads allocate and free, and nobody's memory is another's");
}

// What one allocates another frees.
static _Atomic(char *) mailbox;
static void *release(void *arg)
{
    for (long i = 0; i < rounds; i++) {
        char *block;
        AWAIT((block = atomic_exchange(&mailbox, NULL)) != NULL);
        wrong += !all_bytes(block, (int)(i % 100) + 1, 1000);
        free(block);
    }
    return arg;
}
static void passed_on(void)
{
    wrong = 0;
    pthread_t thread = start(release, NULL);
    for (long i = 0; i < rounds; i++) {
        char *block = malloc(1000);
        memset(block, (int)(i % 100) + 1, 1000);
        AWAIT(mailbox == NULL);
        mailbox = block;
    }
    joined(thread);
    check(wrong == 0, "what one thread allocates another frees");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(allocations), CASE(passed_on),
    };
    rounds = argc > 1 && strcmp(argv[1], "all") != 0 ? number_arg(argc, argv, 2, rounds) : rounds;
    return RUN_CASES(cases);
}
