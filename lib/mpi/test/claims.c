/*
 * claims: data that is offered while it is written into a ring (pml/channel.c), one process for both sides.  The
 * reader claims it at each point of the writer's way; either it has all by copying, or the ring has all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pml_smartmap.h"

enum { PARTS = 6, PART_BYTES = OFFERED_PART_BYTES, BYTES = PARTS * PART_BYTES, ROUNDS = 100, BEFORE = -1, NEVER = -2 };

struct job job = { .sizes = { .processes = 1, .lines = 64, .ring_bytes = 1 << 17, .medium_bytes = 16384 } };
static struct channel_end out, in;
static char data[BYTES];
static int wrong, part, claim_at; /* the part in whose middle the reader claims */
static bool claimed;

static void expect(int right, const char *what, int at)
{
    if (!right)
        fprintf(stderr, "claims: %s, in part %d\n", what, at);
    wrong += !right;
}

void stores_weigh(struct channel_end *end) { (void)end; }

/** What the writer does for each part: here the reader comes in between. */
void stores_copy(char *to, const char *from, size_t bytes, unsigned stores)
{
    (void)stores;
    memcpy(to, from, bytes / 2);
    if (part++ == claim_at)
        claimed = channel_claim(&in);
    memcpy(to + bytes / 2, from + bytes / 2, bytes - bytes / 2);
}

/** Its line, and the room that the reader takes; where that is. */
static char *announce(void)
{
    char *room = channel_message_room(&out, BYTES);
    struct line *line = channel_lines(&out, 1);
    line->stores = 0;
    channel_post(&out, line, 1, BYTES);
    in.line++;
    expect(channel_take(&in, line, BYTES) == room, "its data lies elsewhere", 0);
    expect(channel_written(&in, BYTES, 0) == 0, "some is there before it is written", 0);
    return room;
}

static bool follow(char *room) { return channel_follow(&out, room, data, BYTES, PART_BYTES, 0); }

/** The reader comes in part `at`, BEFORE all or after (PARTS). */
static void meet(int at)
{
    part = 0;
    claimed = false;
    claim_at = at;
    char *room = announce();
    if (at == BEFORE)
        claimed = channel_claim(&in);
    bool whole = follow(room);
    if (at == PARTS)
        claimed = channel_claim(&in);
    expect(claimed == (at < PARTS), "claimed, or not", at);
    expect(whole == !claimed, "both sides have it, or none", at);
    expect(part == (at == BEFORE ? 0 : claimed ? at + 1 : PARTS), "the writer goes on though it is claimed", at);
    if (claimed) {
        expect(!channel_is_copied(&out), "copied, before it is", at);
        channel_copied(&in);
        expect(channel_is_copied(&out), "not copied, though it is", at);
    } else {
        expect(channel_written(&in, BYTES, 0) == BYTES && memcmp(room, data, BYTES) == 0, "not all in the ring", at);
    }
    expect(!channel_claim(&in), "claimed again", at);
    channel_free(&in);
}

/** A reader that dies with a claim must not hold up who sends to it, until that is noticed. */
static void die(void)
{
    claim_at = NEVER;
    char *room = announce();
    expect(channel_claim(&in), "not claimed", 0);
    for (int i = 0; i < 3; i++) {
        follow(room);
        expect(i > 0 || !channel_is_copied(&out), "copied by the dead", i);
        room = announce();
    }
}

int main(void)
{
    struct block *block = aligned_alloc(4096, (sizeof *block + channel_bytes(&job.sizes) + 4095) / 4096 * 4096);
    memset(block, 0, sizeof *block + channel_bytes(&job.sizes));
    out = in = channel_end(block, 0, &job.sizes);
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 256);
    for (int round = 0; round < ROUNDS; round++)
        for (int at = BEFORE; at <= PARTS; at++)
            meet(at);
    die();
    free(block);
    printf("claims: %d wrong\n", wrong);
    return wrong > 0;
}
