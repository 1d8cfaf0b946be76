/*
 * Reading a neighbour's array while it computes: the owner goes on without waiting for its readers. A number that is odd while the
 * array changes tells a reader whether what it copied belongs together; if not, it copies once more.
 */
#include "job.h"

enum { WORDS = 256, ROUNDS = 3000 };

static _Atomic unsigned version;
static _Atomic long array[WORDS];

static void compute(long round)
{
    atomic_store_explicit(&version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&array[i], round * (i + 1), memory_order_relaxed);
    atomic_store_explicit(&version, version + 1, memory_order_release);
}

/* Copies the array of a rank as it was at some moment. */
static void snapshot(int of, long copy[WORDS])
{
    unsigned before, after;
    do {
        before = atomic_load_explicit(OF(of, version), memory_order_acquire);
        for (int i = 0; i < WORDS; i++)
            copy[i] = atomic_load_explicit(&(*OF(of, array))[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(OF(of, version), memory_order_relaxed);
    } while (before != after || before % 2 != 0);
}

int main(void)
{
    job_begin();
    int next = (rank + 1) % ranks, is_right = 1;
    long copy[WORDS], last = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        compute(round);
        snapshot(next, copy);
        for (int i = 0; i < WORDS; i++)
            is_right &= copy[i] == copy[0] * (i + 1);
        is_right &= copy[0] >= last;
        last = copy[0];
    }
    job_done();
    snapshot(next, copy);
    return job_end("neighbour", is_right && copy[0] == ROUNDS);
}
