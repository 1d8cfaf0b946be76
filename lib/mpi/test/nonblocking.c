/*
 * nonblocking: collectives that Open MPI's own components serve by messages,
 * which are ours: non-blocking, neighbourhood and persistent ones.  Each must
 * give what its blocking twin gives, whatever else is under way: several are
 * open at once, on two communicators, among messages and blocking collectives.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#endif

enum { COLLECTIVES = 11, ROUNDS = 12, STARTS = 5, MOST = 20000 };

static int rank, size, wrong;

static void expect(int right, const char *what, int which, int count)
{
    if (!right && wrong++ < 5)
        fprintf(stderr, "rank %d: %s %d, %d ints\n", rank, what, which, count);
}

/** Data of one collective: what goes in, what comes out, what has to. */
struct set {
    int *in, *out, *right;
    size_t ints;
};

static struct set make_set(int count, int seed)
{
    struct set s = { .ints = (size_t)count * (size_t)size };
    s.in = malloc(s.ints * sizeof(int));
    s.out = calloc(s.ints, sizeof(int));
    s.right = calloc(s.ints, sizeof(int));
    for (size_t i = 0; i < s.ints; i++)
        s.in[i] = (int)(rank * 31 + seed * 7 + (int)i) % 1000;
    memcpy(s.out, s.in, s.ints * sizeof(int)); /* what a root broadcasts */
    memcpy(s.right, s.in, s.ints * sizeof(int));
    return s;
}

static void free_set(struct set *s)
{
    free(s->in);
    free(s->out);
    free(s->right);
}

static void start(int which, const int *in, int *out, int n, int root, MPI_Comm c, MPI_Request *r)
{
    switch (which) {
    case 0: MPI_Ibarrier(c, r); break;
    case 1: MPI_Ibcast(out, n, MPI_INT, root, c, r); break;
    case 2: MPI_Ireduce(in, out, n, MPI_INT, MPI_SUM, root, c, r); break;
    case 3: MPI_Iallreduce(in, out, n, MPI_INT, MPI_MAX, c, r); break;
    case 4: MPI_Igather(in, n, MPI_INT, out, n, MPI_INT, root, c, r); break;
    case 5: MPI_Iscatter(in, n, MPI_INT, out, n, MPI_INT, root, c, r); break;
    case 6: MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, c, r); break;
    case 7: MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, c, r); break;
    case 8: MPI_Iscan(in, out, n, MPI_INT, MPI_SUM, c, r); break;
    case 9: MPI_Iexscan(in, out, n, MPI_INT, MPI_SUM, c, r); break;
    default: MPI_Ireduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, c, r);
    }
}

static void call(int which, const int *in, int *out, int n, int root, MPI_Comm c)
{
    switch (which) {
    case 0: MPI_Barrier(c); break;
    case 1: MPI_Bcast(out, n, MPI_INT, root, c); break;
    case 2: MPI_Reduce(in, out, n, MPI_INT, MPI_SUM, root, c); break;
    case 3: MPI_Allreduce(in, out, n, MPI_INT, MPI_MAX, c); break;
    case 4: MPI_Gather(in, n, MPI_INT, out, n, MPI_INT, root, c); break;
    case 5: MPI_Scatter(in, n, MPI_INT, out, n, MPI_INT, root, c); break;
    case 6: MPI_Allgather(in, n, MPI_INT, out, n, MPI_INT, c); break;
    case 7: MPI_Alltoall(in, n, MPI_INT, out, n, MPI_INT, c); break;
    case 8: MPI_Scan(in, out, n, MPI_INT, MPI_SUM, c); break;
    case 9: MPI_Exscan(in, out, n, MPI_INT, MPI_SUM, c); break;
    default: MPI_Reduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, c);
    }
}

/** Rank 0's result of MPI_Exscan, and others' of rooted ones, stay as they were. */
static void judge(const struct set *s, const char *what, int which, int count)
{
    expect(memcmp(s->out, s->right, s->ints * sizeof(int)) == 0, what, which, count);
}

/** All at once, on communicators in turn; a message and blocking ones meanwhile. */
static void all_at_once(int count, int round, MPI_Comm *comms)
{
    struct set sets[COLLECTIVES];
    MPI_Request requests[COLLECTIVES];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got = -1;
    for (int i = 0; i < COLLECTIVES; i++) {
        sets[i] = make_set(count, i + round);
        start(i, sets[i].in, sets[i].out, count, (i + round) % size, comms[(i + round) % 2],
              &requests[i]);
    }
    MPI_Sendrecv(&rank, 1, MPI_INT, to, round, &got, 1, MPI_INT, from, round, comms[0],
                 MPI_STATUS_IGNORE);
    expect(got == from, "a message among collectives, round", round, 1);
    for (int i = 0; i < COLLECTIVES; i++)
        call(i, sets[i].in, sets[i].right, count, (i + round) % size, comms[(i + round) % 2]);
    for (int i = COLLECTIVES - 1; i >= 0 && round % 2; i--) /* the last first */
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Waitall(COLLECTIVES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COLLECTIVES; i++) {
        judge(&sets[i], "non-blocking collective", i, count);
        free_set(&sets[i]);
    }
}

/**
 * On a ring: what comes from either side is known.  Of two ranks each is on both
 * sides of the other: Open MPI's libnbc then changes what comes from them.
 */
static void neighbours(int count, MPI_Comm ring)
{
    int side[2], all;
    MPI_Request requests[2];
    int *in = malloc(2 * (size_t)count * sizeof *in), *out = calloc(2 * (size_t)count, sizeof *out);
    int *gathered = calloc(2 * (size_t)count, sizeof *gathered);
    MPI_Cart_shift(ring, 0, 1, &side[0], &side[1]);
    for (int i = 0; i < 2 * count; i++)
        in[i] = rank * 1000 + i / count * 500 + i % count % 500;
    MPI_Ineighbor_alltoall(in, count, MPI_INT, out, count, MPI_INT, ring, &requests[0]);
    MPI_Ineighbor_allgather(in, count, MPI_INT, gathered, count, MPI_INT, ring, &requests[1]);
    MPI_Allreduce(&count, &all, 1, MPI_INT, MPI_SUM, ring);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 * count; i++) {
        int s = i / count, at = i % count % 500; /* the left one's right part comes from there */
        expect(size <= 2 || out[i] == side[s] * 1000 + (1 - s) * 500 + at, "neighbour", s, count);
        expect(gathered[i] == side[s] * 1000 + at, "gathered from neighbour", s, count);
    }
    MPI_Neighbor_alltoall(in, count, MPI_INT, gathered, count, MPI_INT, ring);
    expect(size <= 2 || memcmp(out, gathered, 2 * (size_t)count * sizeof *out) == 0,
           "blocking or not, neighbours of", size, count);
    free(in);
    free(out);
    free(gathered);
}

static void persistent(int count, MPI_Comm comm)
{
    enum { KINDS = 3 };
    struct set sets[KINDS];
    MPI_Request requests[KINDS];
    for (int i = 0; i < KINDS; i++)
        sets[i] = make_set(count, i);
    INIT(Bcast)(sets[0].out, count, MPI_INT, size - 1, comm, MPI_INFO_NULL, &requests[0]);
    INIT(Allreduce)(sets[1].in, sets[1].out, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                    &requests[1]);
    INIT(Alltoall)(sets[2].in, count, MPI_INT, sets[2].out, count, MPI_INT, comm, MPI_INFO_NULL,
                   &requests[2]);
    for (int turn = 0; turn < STARTS; turn++) {
        for (int i = 0; i < KINDS; i++) {
            sets[i].in[0] += turn;
            memcpy(sets[i].out, sets[i].in, sets[i].ints * sizeof(int));
            memcpy(sets[i].right, sets[i].in, sets[i].ints * sizeof(int));
        }
        MPI_Startall(KINDS, requests);
        MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
        MPI_Bcast(sets[0].right, count, MPI_INT, size - 1, comm);
        MPI_Allreduce(sets[1].in, sets[1].right, count, MPI_INT, MPI_SUM, comm);
        MPI_Alltoall(sets[2].in, count, MPI_INT, sets[2].right, count, MPI_INT, comm);
        for (int i = 0; i < KINDS; i++)
            judge(&sets[i], "persistent collective", i, count);
    }
    for (int i = 0; i < KINDS; i++) {
        MPI_Request_free(&requests[i]);
        free_set(&sets[i]);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = { 1, 300, MOST };
    int all;
    MPI_Comm comms[2], ring;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){ 1 }, 0, &ring);
    for (int i = 0; i < 3; i++) {
        for (int round = 0; round < ROUNDS; round++)
            all_at_once(counts[i], round, comms);
        neighbours(counts[i], ring);
        persistent(counts[i], comms[1]);
    }
    MPI_Comm_free(&ring);
    MPI_Comm_free(&comms[1]);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("nonblocking: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
