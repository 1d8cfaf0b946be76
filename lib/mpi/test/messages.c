/*
 * messages: every way to send and to receive, against a serial model.
 *
 * Each rank sends to each, itself included, in every mode, with every layout
 * and count on each side; the model is MPI_Pack and MPI_Unpack, which are
 * local.  Then what surrounds it: truncation, cancelling, probes, order under
 * wildcards, persistent requests, requests that are freed, buffers that fill up,
 * and communicators of every kind.
 */
#include "areas.h"

enum mode { STANDARD, READY, SYNCHRONOUS, BUFFERED, PERSISTENT, MODES };
enum way { RECV, IRECV, PERSISTENT_RECV, PROBED, MATCHED, WAYS };
enum { TAG = 7, LONE_TAG = 5000 };

static void judge_status(MPI_Status *s, int from, int tag, int bytes)
{
    int got;
    MPI_Get_count(s, MPI_BYTE, &got);
    expect(s->MPI_SOURCE == from && s->MPI_TAG == tag, "source or tag of a status");
    expect(got == bytes, "count of a status");
}

static void send(enum mode mode, void *at, int count, MPI_Datatype type, int to, MPI_Comm comm,
                 MPI_Request *request)
{
    switch (mode) {
    case STANDARD: MPI_Isend(at, count, type, to, TAG, comm, request); break;
    case READY: MPI_Irsend(at, count, type, to, TAG, comm, request); break;
    case SYNCHRONOUS: MPI_Issend(at, count, type, to, TAG, comm, request); break;
    case BUFFERED: MPI_Ibsend(at, count, type, to, TAG, comm, request); break;
    default:
        MPI_Send_init(at, count, type, to, TAG, comm, request);
        MPI_Start(request);
    }
}

static void probe_and_receive(void *at, int count, MPI_Datatype type, int from, MPI_Comm comm,
                              MPI_Status *status)
{
    int there = 0;
    while (!there)
        MPI_Iprobe(from, MPI_ANY_TAG, comm, &there, status);
    MPI_Recv(at, count, type, status->MPI_SOURCE, status->MPI_TAG, comm, status);
}

static void receive(enum way way, void *at, int count, MPI_Datatype type, int from,
                    MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
    MPI_Message message;
    switch (way) {
    case RECV: MPI_Recv(at, count, type, from, TAG, comm, status); break;
    case IRECV:
        MPI_Irecv(at, count, type, from, MPI_ANY_TAG, comm, &request);
        MPI_Wait(&request, status);
        break;
    case PERSISTENT_RECV:
        MPI_Recv_init(at, count, type, from, TAG, comm, &request);
        MPI_Start(&request);
        MPI_Wait(&request, status);
        MPI_Request_free(&request);
        break;
    case PROBED: probe_and_receive(at, count, type, from, comm, status); break;
    default:
        MPI_Mprobe(from, MPI_ANY_TAG, comm, &message, status);
        MPI_Mrecv(at, count, type, &message, status);
    }
}

/** Everyone to the rank `step` further, `count` of a layout into another. */
static void shift(MPI_Comm comm, int step, enum mode mode, enum way way, int out, int in,
                  int count)
{
    int me, all;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    int to = (me + step) % all, from = (me + all - step % all) % all;
    int seed = (int)mode * 5 + (int)way + count;
    struct area a = make_area(layout[out], count), b = make_area(layout[in], count + 1);
    MPI_Request request, receiving;
    MPI_Status status;
    int to_world = to, from_world = from, bytes = packed_bytes(layout[out], count);
    int swapped = packed_bytes(layout[in], 1) != packed_bytes(layout[out], 1);
    MPI_Group group, world;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(group, 1, &to, world, &to_world);
    MPI_Group_translate_ranks(group, 1, &from, world, &from_world);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    fill(&a, layout[out], count, to_world, seed);
    int room = swapped ? bytes / packed_bytes(layout[in], 1) : count + 1;
    if (swapped) { /* sizes differ: as many bytes, whole elements only */
        bytes = 0;
        room = 0;
    }
    if (mode == READY || to == me) {
        MPI_Irecv(b.at, room, layout[in], from, TAG, comm, &receiving);
        MPI_Barrier(comm);
        send(mode, a.at, swapped ? 0 : count, layout[out], to, comm, &request);
        MPI_Wait(&receiving, &status);
    } else {
        send(mode, a.at, swapped ? 0 : count, layout[out], to, comm, &request);
        receive(way, b.at, room, layout[in], from, comm, &status);
    }
    judge_status(&status, from, TAG, bytes);
    judge(&b, layout[in], bytes, from_world, seed, "data of a message");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (mode == PERSISTENT)
        MPI_Request_free(&request);
    free(a.base);
    free(b.base);
}

static void all_modes(MPI_Comm comm, int step)
{
    static const int counts[] = { 0, 1, 2, 3, 40, 700, 9000 };
    for (int mode = 0; mode < MODES; mode++)
        for (int way = 0; way < WAYS; way++)
            for (int out = 0; out < LAYOUTS; out++)
                for (int i = 0; i < 7; i++)
                    shift(comm, step, mode, way, out, (out + way) % LAYOUTS, counts[i]);
}

/** Long ones from memory that windows do not show, beyond any ring. */
static void static_data(void)
{
    static int out[300000], in[300000];
    int on_stack[50000], to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < 300000; i++)
        out[i] = rank + i;
    MPI_Sendrecv(out, 300000, MPI_INT, to, 1, in, 300000, MPI_INT, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 300000; i++)
        expect(in[i] == from + i, "static data");
    MPI_Sendrecv(in, 50000, MPI_INT, to, 1, on_stack, 50000, MPI_INT, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 50000; i++)
        expect(on_stack[i] == (rank + 2 * size - 2) % size + i, "data on the stack");
}

static void truncation(int bytes)
{
    char *out = calloc(1, (size_t)bytes), *in = calloc(1, (size_t)bytes + 1);
    int to = (rank + 1) % size, from = (rank + size - 1) % size, class = 0;
    MPI_Request request;
    memset(in, SENTINEL, (size_t)bytes + 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request);
    int error = MPI_Recv(in, bytes / 2, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    expect(class == MPI_ERR_TRUNCATE, "a truncated message must say so");
    expect(in[bytes / 2] == SENTINEL, "written beyond a truncated receive");
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "its sender is not at fault");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(out);
    free(in);
}

static void cancelling(void)
{
    int word = 0, cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, LONE_TAG, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    expect(cancelled, "a receive that nothing met is cancelled");
    MPI_Send(&rank, 1, MPI_INT, rank, LONE_TAG, MPI_COMM_WORLD);
    MPI_Probe(rank, LONE_TAG, MPI_COMM_WORLD, &status);
    MPI_Irecv(&word, 1, MPI_INT, rank, LONE_TAG, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request); /* too late */
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    expect(!cancelled && word == rank, "a receive that was met is not");
}

/** Wildcards take messages in the order in which each was sent. */
static void order(void)
{
    enum { EACH = 500 };
    int out[EACH], next[64] = { 0 }, from = (rank + size - 1) % size, in;
    MPI_Request requests[EACH];
    MPI_Status status;
    for (int i = 0; i < EACH; i++) {
        out[i] = i;
        MPI_Isend(&out[i], 1, MPI_INT, (rank + 1) % size, i % 3, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < EACH; i++) {
        MPI_Recv(&in, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : from, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
        expect(status.MPI_SOURCE == from && in == next[0]++ && status.MPI_TAG == in % 3,
               "order under wildcards");
    }
    MPI_Waitall(EACH, requests, MPI_STATUSES_IGNORE);
}

/** Many unexpected, taken from the last to the first, each by its tag. */
static void unexpected(int count)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, in;
    for (int i = 0; i < count; i++)
        MPI_Send(&i, 1, MPI_INT, to, i, MPI_COMM_WORLD);
    for (int i = count - 1; i >= 0; i--) {
        MPI_Recv(&in, 1, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(in == i, "an unexpected message by its tag");
    }
}

/** Requests freed while they are active: what they do is done all the same. */
static void freed(void)
{
    enum { INTS = 100000 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, done = 0, answer;
    int *out = malloc(INTS * sizeof *out), *in = malloc(INTS * sizeof *in);
    MPI_Request request, receiving;
    for (int i = 0; i < INTS; i++)
        out[i] = rank ^ i;
    MPI_Irecv(&answer, 1, MPI_INT, to, 2, MPI_COMM_WORLD, &receiving);
    MPI_Isend(out, INTS, MPI_INT, to, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(in, INTS, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < INTS; i++)
        expect(in[i] == (from ^ i), "data of a request that was freed");
    MPI_Send(&done, 1, MPI_INT, from, 2, MPI_COMM_WORLD);
    MPI_Wait(&receiving, MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

/** More buffered messages than channels hold; then the buffer is free again. */
static void buffered(void)
{
    enum { EACH = 2000, INTS = 100 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, words[INTS], class = 0;
    int bytes = EACH * (INTS * (int)sizeof(int) + MPI_BSEND_OVERHEAD), old_bytes;
    void *old, *room = malloc((size_t)bytes), *large = calloc(1, (size_t)bytes + 1);
    MPI_Buffer_detach(&old, &old_bytes);
    MPI_Buffer_attach(room, bytes);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EACH; i++) {
            for (int w = 0; w < INTS; w++)
                words[w] = i + w;
            MPI_Bsend(words, INTS, MPI_INT, to, TAG, MPI_COMM_WORLD);
        }
        for (int i = 0; i < EACH; i++) {
            MPI_Recv(words, INTS, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(words[0] == i && words[INTS - 1] == i + INTS - 1, "a buffered message");
        }
        MPI_Barrier(MPI_COMM_WORLD); /* ours have arrived, too */
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Bsend(large, bytes + 1, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
    MPI_Error_class(error, &class);
    expect(class == MPI_ERR_BUFFER, "too large for the buffer");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Buffer_detach(&room, &bytes);
    MPI_Buffer_attach(old, old_bytes);
    free(room);
    free(large);
}

/** Groups of even and odd ranks, which talk across. */
static void across(void)
{
    MPI_Comm half, inter, merged;
    int peers, got = -1, me;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &inter);
    MPI_Comm_remote_size(inter, &peers);
    MPI_Comm_rank(inter, &me);
    for (int r = 0; r < peers; r++)
        MPI_Send(&rank, 1, MPI_INT, r, me, inter);
    for (int r = 0; r < peers; r++) {
        MPI_Recv(&got, 1, MPI_INT, r, r, inter, MPI_STATUS_IGNORE);
        expect(got == 2 * r + 1 - rank % 2, "a message across an intercommunicator");
    }
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    shift(merged, 1, SYNCHRONOUS, MATCHED, 1, 1, 700);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/** The same tags at once in many communicators, received in reverse. */
static void many_communicators(void)
{
    enum { MANY = 200 };
    MPI_Comm comms[MANY];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got;
    for (int i = 0; i < MANY; i++)
        MPI_Comm_dup(i < 2 ? MPI_COMM_WORLD : comms[i / 2], &comms[i]);
    for (int i = 0; i < MANY; i++)
        MPI_Send(&i, 1, MPI_INT, to, TAG, comms[i]);
    for (int i = MANY - 1; i >= 0; i--) {
        MPI_Recv(&got, 1, MPI_INT, from, TAG, comms[i], MPI_STATUS_IGNORE);
        expect(got == i, "a message in one of many communicators");
    }
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&comms[i]);
}

static void persistent_again(void)
{
    enum { TURNS = 50 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, out, in;
    MPI_Request both[2];
    MPI_Send_init(&out, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, &both[0]);
    MPI_Recv_init(&in, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &both[1]);
    for (int turn = 0; turn < TURNS; turn++) {
        out = rank * TURNS + turn;
        MPI_Startall(2, both);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        expect(in == from * TURNS + turn, "a persistent request, started again");
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
}

int main(int argc, char **argv)
{
    enum { BUFFER = 4 << 20 };
    int all;
    MPI_Comm reversed;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Buffer_attach(malloc(BUFFER), BUFFER);
    make_layouts();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    for (int step = 0; step < (size < 3 ? size : 3); step++)
        all_modes(step % 2 ? MPI_COMM_WORLD : reversed, step);
    static_data();
    truncation(40);
    truncation(4000);
    truncation(400000);
    cancelling();
    order();
    unexpected(3000);
    freed();
    buffered();
    if (size > 1)
        across();
    many_communicators();
    persistent_again();
    MPI_Comm_free(&reversed);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("messages: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
