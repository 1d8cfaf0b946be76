/*
 * order MESSAGES [SEED]: random load between all ranks, and MPI's order held
 * against what came out.
 *
 * Each rank sends numbered messages of random size, tag and mode to all, in
 * three communicators, and posts receives of random patterns, some of which it
 * cancels at the end.  Every message must come once and unchanged, and (MPI 4.1,
 * section 3.5) for every two messages of one sender in one communicator and
 * every two receives that both could take both: the earlier receive has the
 * earlier message.  After each round a matcher by the standard's words looks at
 * all pairs.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS = 3, TAGS = 3, MOST_ROUND = 150, FIRST_ROUND = 30, OPEN = 12, HEADER_INTS = 4 };
enum { MOST_BYTES = 300000, BURST = 12, MOST_OPEN = OPEN + BURST + 1 };

struct receive {
    int comm, source, tag; /* as posted */
    int from, number, got_tag; /* what came; from -1: nothing */
    int *data;
};

/** Receives that are posted and not complete: MPI_Testsome's array, and whose each is. */
static struct {
    MPI_Request request[MOST_OPEN];
    struct receive *receive[MOST_OPEN];
    int count;
} pending;

struct sending {
    MPI_Request request;
    int *data;
};

static int rank, size, failures;
static MPI_Comm comms[COMMS];
static unsigned seed;

static int draw(int limit) { return (int)(rand_r(&seed) % (unsigned)limit); }

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static int draw_bytes(void)
{
    int kind = draw(100), header = HEADER_INTS * (int)sizeof(int);
    if (kind < 90)
        return header + 4 * draw(70); /* in one to four lines, and in the ring of bytes */
    return kind < 99 ? header + 4 * draw(5000) : header + 4 * draw(MOST_BYTES / 4 - 4);
}

static void send_one(int to, int number, struct sending *s)
{
    int comm = draw(COMMS), tag = draw(TAGS), bytes = draw_bytes();
    s->data = malloc((size_t)bytes);
    for (int i = 0; i < bytes / 4; i++)
        s->data[i] = rank + number + i;
    int header[HEADER_INTS] = { rank, number, comm * TAGS + tag, bytes };
    memcpy(s->data, header, sizeof header);
    if (draw(4) == 0)
        MPI_Issend(s->data, bytes, MPI_BYTE, to, tag, comms[comm], &s->request);
    else
        MPI_Isend(s->data, bytes, MPI_BYTE, to, tag, comms[comm], &s->request);
}

/** Buffers for receives, used again and again: to allot them costs more than the rest. */
static int *buffers[MOST_OPEN];
static int unused_buffers;

/** Post a receive; `open`: one that takes any message of its communicator. */
static void post_one(struct receive *r, int comm, int open)
{
    MPI_Request *request = &pending.request[pending.count];
    *r = (struct receive){ .comm = comm, .from = -1,
                           .source = open || draw(3) == 0 ? MPI_ANY_SOURCE : draw(size),
                           .tag = open || draw(3) == 0 ? MPI_ANY_TAG : draw(TAGS),
                           .data = buffers[--unused_buffers] };
    MPI_Message message;
    MPI_Status status;
    int there = 0;
    if (draw(8) == 0) { /* a matched probe is a receive if it finds something */
        MPI_Improbe(r->source, r->tag, comms[r->comm], &there, &message, &status);
        if (there)
            MPI_Imrecv(r->data, MOST_BYTES, MPI_BYTE, &message, request);
    }
    if (!there)
        MPI_Irecv(r->data, MOST_BYTES, MPI_BYTE, r->source, r->tag, comms[r->comm], request);
    pending.receive[pending.count++] = r;
}

static void take(struct receive *r, MPI_Status *status)
{
    int bytes, same = 1;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    r->from = r->data[0];
    r->number = r->data[1];
    r->got_tag = status->MPI_TAG;
    expect(status->MPI_SOURCE == r->from && r->data[2] == r->comm * TAGS + r->got_tag &&
               r->data[3] == bytes, "a status does not belong to its message");
    for (int i = HEADER_INTS; i < bytes / 4; i++)
        same = same && r->data[i] == r->from + r->number + i;
    expect(same, "a message has changed");
}

static int takes(const struct receive *r, const struct receive *what)
{
    return r->comm == what->comm && (r->source == MPI_ANY_SOURCE || r->source == what->from) &&
           (r->tag == MPI_ANY_TAG || r->tag == what->got_tag);
}

/** All pairs of receives in the order of posting. */
static void judge(const struct receive *receives, int count)
{
    for (int late = 0; late < count; late++)
        for (int early = 0; early < late; early++) {
            const struct receive *e = &receives[early], *l = &receives[late];
            if (l->from < 0 || !takes(e, l))
                continue;
            expect(e->from >= 0, "a receive was left out");
            if (e->from == l->from)
                expect(e->number < l->number, "a message overtook another");
        }
}

/** Take what came: how many. */
static int poll_receives(void)
{
    int indices[MOST_OPEN], came = 0, left = 0;
    MPI_Status statuses[MOST_OPEN];
    MPI_Testsome(pending.count, pending.request, &came, indices, statuses);
    if (came == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < came; i++) {
        struct receive *r = pending.receive[indices[i]];
        take(r, &statuses[i]);
        buffers[unused_buffers++] = r->data;
    }
    for (int i = 0; i < pending.count; i++)
        if (pending.request[i] != MPI_REQUEST_NULL) {
            pending.request[left] = pending.request[i];
            pending.receive[left++] = pending.receive[i];
        }
    pending.count = left;
    return came;
}

static void cancel_rest(void)
{
    for (int i = 0; i < pending.count; i++) {
        MPI_Status status;
        int cancelled = 0;
        MPI_Cancel(&pending.request[i]);
        MPI_Wait(&pending.request[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        expect(cancelled, "a receive without a message was not cancelled");
        buffers[unused_buffers++] = pending.receive[i]->data;
    }
    pending.count = 0;
}

/** A communicator with a message that no receive takes, or -1. */
static int draw_waiting(void)
{
    int there, comm = draw(COMMS);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[comm], &there, MPI_STATUS_IGNORE);
    return there ? comm : -1;
}

/** `each` messages from each rank to each. */
static void round_of(int first_number, int each)
{
    int all = each * size, sent = 0, came = 0, posted = 0, waiting;
    struct sending *sends = calloc((size_t)all, sizeof *sends);
    struct receive *receives = calloc((size_t)all + MOST_OPEN, sizeof *receives);
    while (came < all) {
        for (int i = draw(BURST); i > 0; i--)
            if (sent < all && draw(2)) {
                send_one((sent + rank) % size, first_number + sent / size, &sends[sent]);
                sent++;
            } else if (pending.count < OPEN) {
                post_one(&receives[posted++], draw(COMMS), pending.count >= OPEN - 4);
            }
        /* All that are posted may wait for what does not come. */
        if (pending.count >= OPEN && unused_buffers > 0 && (waiting = draw_waiting()) >= 0)
            post_one(&receives[posted++], waiting, 1);
        came += poll_receives();
    }
    for (; sent < all; sent++)
        send_one((sent + rank) % size, first_number + sent / size, &sends[sent]);
    for (int i = 0; i < all; i++) {
        MPI_Wait(&sends[i].request, MPI_STATUS_IGNORE);
        free(sends[i].data);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    cancel_rest();
    judge(receives, posted);
    free(receives);
    free(sends);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    long messages = argc > 1 ? atol(argv[1]) : 10000, done = 0;
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seed = (argc > 2 ? (unsigned)atoi(argv[2]) : 1) * 1000 + (unsigned)rank;
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (unused_buffers = 0; unused_buffers < MOST_OPEN; unused_buffers++)
        buffers[unused_buffers] = malloc(MOST_BYTES);
    if (rank == 0)
        fprintf(stderr, "order: running\n");
    for (int number = 0, each = FIRST_ROUND; done < messages; each = MOST_ROUND) {
        round_of(number, each);
        number += each;
        done += (long)each * size * size;
    }
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("order: %d ranks, %ld messages: %d wrong\n", size, done, all);
    MPI_Finalize();
    return all != 0;
}
