// Collectives, blocking and not: the same checks for both, on intracommunicators, in place, between groups and between neighbours.
#include "conform.h"

enum { MOST = 60000 };
static int *out, *in;

// What a call that does not block needs to be one that does.
static MPI_Request request;
static void finished(void)
{
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
// Calls MPI_name, or MPI_its_name, which does not block, and waits for it.
#define CALL(blocks, name, its_name, ...) \
    ((blocks) ? (void)MPI_##name(__VA_ARGS__) : ((void)MPI_##its_name(__VA_ARGS__, &request), finished()))
#define W MPI_COMM_WORLD

static void say(int right, int blocks, const char *what)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s", what, blocks ? "" : ", not blocking");
    agree(right, name);
}

static int sum_of(int i)
{
    int sum = 0;
    for (int r = 0; r < size; r++)
        sum += value(r, i);
    return sum;
}

static void moves(int blocks, int n)
{
    int right = 1;
    for (int root = 0; root < size; root++) {
        fill(out, n, root == rank ? root : -1);
        CALL(blocks, Bcast, Ibcast, out, n, MPI_INT, root, W);
        right &= is_from(out, n, root);
    }
    say(right, blocks, "bcast");
    for (int root = 0; root < size; root++) {
        fill(out, n, rank);
        CALL(blocks, Gather, Igather, out, n, MPI_INT, in, n, MPI_INT, root, W);
        for (int r = 0; rank == root && r < size; r++)
            right &= is_from(in + r * n, n, r);
    }
    say(right, blocks, "gather");
    for (int root = 0; root < size; root++) {
        for (int r = 0; r < size; r++)
            fill(out + r * n, n, root * 10 + r);
        CALL(blocks, Scatter, Iscatter, out, n, MPI_INT, in, n, MPI_INT, root, W);
        right &= is_from(in, n, root * 10 + rank);
    }
    say(right, blocks, "scatter");
    fill(out, n, rank);
    CALL(blocks, Allgather, Iallgather, out, n, MPI_INT, in, n, MPI_INT, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + r * n, n, r);
    fill(in + rank * n, n, rank + 50);
    CALL(blocks, Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_INT, in, n, MPI_INT, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + r * n, n, r + 50);
    say(right, blocks, "allgather");
    for (int r = 0; r < size; r++)
        fill(out + r * n, n, rank * 10 + r);
    CALL(blocks, Alltoall, Ialltoall, out, n, MPI_INT, in, n, MPI_INT, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + r * n, n, r * 10 + rank);
    say(right, blocks, "alltoall");
}

// Rank r has r + 1 pieces; they lie apart.
static void uneven(int blocks, int n)
{
    int counts[32], places[32], sends[32], starts[32], right = 1;
    MPI_Datatype kinds[32];
    for (int r = 0; r < size; r++) {
        counts[r] = n * (r + 1);
        places[r] = r ? places[r - 1] + counts[r - 1] + 3 : 0;
    }
    fill(out, counts[rank], rank);
    CALL(blocks, Gatherv, Igatherv, out, counts[rank], MPI_INT, in, counts, places, MPI_INT, size - 1, W);
    for (int r = 0; rank == size - 1 && r < size; r++)
        right &= is_from(in + places[r], counts[r], r);
    CALL(blocks, Allgatherv, Iallgatherv, out, counts[rank], MPI_INT, in, counts, places, MPI_INT, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + places[r], counts[r], r);
    say(right, blocks, "gatherv and allgatherv");
    for (int r = 0; r < size; r++)
        fill(out + places[r], counts[r], 20 + r);
    CALL(blocks, Scatterv, Iscatterv, out, counts, places, MPI_INT, in, counts[rank], MPI_INT, 0, W);
    say(is_from(in, counts[rank], 20 + rank), blocks, "scatterv");
    // From rank s to rank r: s + r + 1 pieces.
    for (int r = 0; r < size; r++) {
        sends[r] = counts[r] = n * (rank + r + 1);
        starts[r] = places[r] = r * (2 * size * n + 1);
        fill(out + starts[r], sends[r], rank * 10 + r);
    }
    CALL(blocks, Alltoallv, Ialltoallv, out, sends, starts, MPI_INT, in, counts, places, MPI_INT, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + places[r], counts[r], r * 10 + rank);
    say(right, blocks, "alltoallv");
    memset(in, 0, MOST * sizeof *in);
    for (int r = 0; r < size; r++) {
        starts[r] *= sizeof(int);
        places[r] *= sizeof(int);
        kinds[r] = MPI_INT;
    }
    CALL(blocks, Alltoallw, Ialltoallw, out, sends, starts, kinds, in, counts, places, kinds, W);
    for (int r = 0; r < size; r++)
        right &= is_from(in + places[r] / sizeof(int), counts[r], r * 10 + rank);
    say(right, blocks, "alltoallw");
}

static void reductions(int blocks, int n)
{
    int right = 1, counts[32], before = 0;
    fill(out, n, rank);
    for (int root = 0; root < size; root++) {
        CALL(blocks, Reduce, Ireduce, out, in, n, MPI_INT, MPI_SUM, root, W);
        for (int i = 0; rank == root && i < n; i++)
            right &= in[i] == sum_of(i);
    }
    say(right, blocks, "reduce");
    CALL(blocks, Allreduce, Iallreduce, out, in, n, MPI_INT, MPI_SUM, W);
    for (int i = 0; i < n; i++)
        right &= in[i] == sum_of(i);
    fill(in, n, rank);
    CALL(blocks, Allreduce, Iallreduce, MPI_IN_PLACE, in, n, MPI_INT, MPI_MAX, W);
    right &= is_from(in, n, size - 1);
    say(right, blocks, "allreduce");
    CALL(blocks, Scan, Iscan, out, in, n, MPI_INT, MPI_MIN, W);
    right &= is_from(in, n, 0);
    CALL(blocks, Exscan, Iexscan, out, in, n, MPI_INT, MPI_MAX, W);
    right &= rank == 0 || is_from(in, n, rank - 1);
    say(right, blocks, "scan and exscan");
    int piece = n / size;
    CALL(blocks, Reduce_scatter_block, Ireduce_scatter_block, out, in, piece, MPI_INT, MPI_SUM, W);
    for (int i = 0; i < piece; i++)
        right &= in[i] == sum_of(rank * piece + i);
    for (int r = 0; r < size; r++) {
        counts[r] = r + 1;
        before += r < rank ? r + 1 : 0;
    }
    CALL(blocks, Reduce_scatter, Ireduce_scatter, out, in, counts, MPI_INT, MPI_SUM, W);
    for (int i = 0; i <= rank; i++)
        right &= in[i] == sum_of(before + i);
    say(right, blocks, "reduce_scatter and reduce_scatter_block");
    CALL(blocks, Barrier, Ibarrier, W);
    say(1, blocks, "barrier");
}

// 2 x 2 matrices modulo 2^32: their product depends on the order.
static void multiply(void *left, void *right, int *length, MPI_Datatype *type)
{
    (void)type;
    unsigned(*a)[4] = left, (*b)[4] = right;
    for (int i = 0; i < *length; i++) {
        unsigned product[4] = {a[i][0] * b[i][0] + a[i][1] * b[i][2], a[i][0] * b[i][1] + a[i][1] * b[i][3],
                               a[i][2] * b[i][0] + a[i][3] * b[i][2], a[i][2] * b[i][1] + a[i][3] * b[i][3]};
        memcpy(b[i], product, sizeof product);
    }
}

static void operations(void)
{
    struct {
        double value;
        int where;
    } mine = {rank == 1 ? 9.5 : -rank, rank}, best;
    MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, W);
    agree(best.value == 9.5 && best.where == 1, "the largest, and where");
    unsigned matrix[4] = {rank + 2, 1, 1, rank}, product[4], expected[4] = {1, 0, 0, 1};
    for (int r = size - 1; r >= 0; r--) {
        unsigned factor[4] = {r + 2, 1, 1, r};
        int one = 1;
        multiply(factor, expected, &one, NULL);
    }
    MPI_Op op;
    MPI_Datatype type;
    MPI_Type_contiguous(4, MPI_UNSIGNED, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    MPI_Allreduce(matrix, product, 1, type, op, W);
    agree(memcmp(product, expected, sizeof product) == 0, "an operation of ours, in the order of ranks");
    multiply(matrix, memcpy(product, matrix, sizeof matrix), (int[]){1}, NULL);
    unsigned local[4];
    memcpy(local, matrix, sizeof local);
    MPI_Reduce_local(matrix, local, 1, type, op);
    agree(memcmp(product, local, sizeof product) == 0, "reduce_local");
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    double x = 0.1 * (rank + 1), sum = 0;
    MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, W);
    unsigned char bits = 1 << rank, all = 0;
    MPI_Allreduce(&bits, &all, 1, MPI_BYTE, MPI_BOR, W);
    agree(sum > 0.29 && all == (1 << size) - 1, "doubles and bits");
}

static void neighbours(int blocks)
{
    MPI_Comm ring;
    int around = 1, got[2] = {-1, -1}, send[2] = {100 + rank, 200 + rank};
    MPI_Cart_create(W, 1, &size, &around, 0, &ring);
    CALL(blocks, Neighbor_allgather, Ineighbor_allgather, send, 1, MPI_INT, got, 1, MPI_INT, ring);
    int right = got[0] == 100 + last && got[1] == 100 + next;
    CALL(blocks, Neighbor_alltoall, Ineighbor_alltoall, send, 1, MPI_INT, got, 1, MPI_INT, ring);
    // With two ranks both neighbours are the same one, and the order between its two messages is the MPI's.
    right &= size == 2 ? got[0] + got[1] == 300 + 2 * next : got[0] == 200 + last && got[1] == 100 + next;
    say(right, blocks, "between neighbours");
    MPI_Comm_free(&ring);
}

static void between_groups(int blocks)
{
    MPI_Comm half, inter;
    int sum = 0, expected = 0, token = rank;
    MPI_Comm_split(W, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, W, 1 - rank % 2, 7, &inter);
    CALL(blocks, Allreduce, Iallreduce, &rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    for (int r = 1 - rank % 2; r < size; r += 2)
        expected += r;
    CALL(blocks, Bcast, Ibcast, &token, 1, MPI_INT, rank == 0 ? MPI_ROOT : rank % 2 ? 0 : MPI_PROC_NULL, inter);
    say(sum == expected && token == (rank % 2 ? 0 : rank), blocks, "between groups");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

// Several at once, on two communicators, finished in another order.
static void overlapping(void)
{
    enum { MANY = 12 };
    MPI_Comm other;
    MPI_Request all[2 * MANY];
    static int from[MANY][2000], to[MANY][2000], sent[MANY];
    int right = 1;
    MPI_Comm_dup(W, &other);
    for (int i = 0; i < MANY; i++) {
        fill(from[i], 2000, rank + i);
        sent[i] = rank == i % size ? i : -1;
        MPI_Iallreduce(from[i], to[i], 2000, MPI_INT, MPI_MAX, W, &all[2 * i]);
        MPI_Ibcast(&sent[i], 1, MPI_INT, i % size, other, &all[2 * i + 1]);
    }
    for (int i = 2 * MANY - 1; i >= 0; i--)
        MPI_Wait(&all[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++)
        right &= is_from(to[i], 2000, size - 1 + i) && sent[i] == i;
    agree(right, "many at once that do not block");
    MPI_Comm_free(&other);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    out = calloc(MOST * size, sizeof *out);
    in = calloc(MOST * size, sizeof *in);
    for (int blocks = 1; blocks >= 0; blocks--) {
        static const int counts[] = {1, 300, 20000};
        for (int c = 0; c < 3; c++)
            moves(blocks, counts[c]);
        uneven(blocks, 500);
        for (int c = 0; c < 3; c++)
            reductions(blocks, 12 * counts[c] / (c == 2 ? 12 : 1));
        neighbours(blocks);
        between_groups(blocks);
    }
    operations();
    overlapping();
    return end();
}
