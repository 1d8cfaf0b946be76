/*
 * stores: which stores pml/stores.c chooses for a ring, where writing and reading
 * take ticks that are given here; and what its copies leave.  One process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "pml_smartmap.h"

enum {
    MESSAGE_BYTES = 16384, LINES = MESSAGE_BYTES / LINE_BYTES,
    SETTLING = (96 << 20) / MESSAGE_BYTES, TURNS = (128 << 20) / MESSAGE_BYTES,
    TICKS = 1000, /* a unit of cost: what an interruption of this test adds is little beside it */
    INTERRUPTED = 37,
};

struct job job;
static struct channel shared;
static struct channel_end out = { .channel = &shared }, in = { .channel = &shared };
static int wrong;

void channel_own(const struct channel_end *end, size_t bytes) { (void)end, (void)bytes; }

static void expect(int right, const char *what)
{
    if (!right)
        fprintf(stderr, "stores: %s\n", what);
    wrong += !right;
}

/** Of one line, by STORES_PAST_CACHES. */
struct machine {
    uint64_t write[2], read[2];
};
static const struct machine near = { { 5, 9 }, { 5, 18 } }, far = { { 16, 10 }, { 13, 11 } };

static uint64_t ago(uint64_t cost, int turn)
{
    return __rdtsc() - cost * LINES * TICKS * (turn % INTERRUPTED == 0 ? 100 : 1);
}

/** How many of `turns` messages went past the caches. */
static int move(const struct machine *m, int turns)
{
    int past = 0;
    for (int turn = 0; turn < turns; turn++) {
        stores_weigh(&out);
        unsigned stores = stores_choose(&out, MESSAGE_BYTES), kind = stores & STORES_PAST_CACHES;
        stores_written(&out, MESSAGE_BYTES, stores, ago(m->write[kind], turn));
        stores_read(&in, MESSAGE_BYTES, stores, ago(m->read[kind], turn));
        past += kind != 0;
    }
    return past;
}

static void choose(const char *where, const struct machine *m, int is_far)
{
    move(m, SETTLING);
    int past = move(m, TURNS);
    expect(past > 0 && past < TURNS, "the other stores are never tried");
    expect((is_far ? TURNS - past : past) <= TURNS / 40, where);
}

static void leave_alone(void)
{
    expect(stores_choose(&out, 1024) == 0, "short data goes past the caches");
    job.crowded = true;
    unsigned before = out.stores;
    for (int turn = 0; turn < TURNS; turn++)
        expect(stores_choose(&out, MESSAGE_BYTES) == before, "something is tried where processes wait for CPUs");
    job.crowded = false;
}

static void copy(void)
{
    enum { AREA = 4096 };
    static char from[AREA + LINE_BYTES], to[AREA + LINE_BYTES] __attribute__((aligned(LINE_BYTES)));
    for (int i = 0; i < AREA; i++)
        from[i] = (char)(i * 7 + i / 251);
    for (int bytes = 0; bytes <= 1000; bytes++)
        for (unsigned stores = 0; stores < 4; stores++) {
            int shift = bytes * 5 % LINE_BYTES;
            memset(to, 99, sizeof to);
            stores_copy(to, from + shift, (size_t)bytes, stores);
            expect(memcmp(to, from + shift, (size_t)bytes) == 0 && to[bytes] == 99, "a copy differs");
        }
}

int main(void)
{
    copy();
    choose("near, at the start", &near, 0);
    choose("far", &far, 1);
    choose("near again", &near, 0);
    choose("far again", &far, 1);
    leave_alone();
    printf("stores: %d wrong\n", wrong);
    return wrong != 0;
}
