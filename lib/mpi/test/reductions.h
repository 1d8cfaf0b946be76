/*
 * The model's reductions; part of model.h, which says what it is about.
 */
#ifndef REDUCTIONS_H
#define REDUCTIONS_H

static const struct layout *operand_layout(int operation)
{
    return operation <= MAX_INT ? &single : operation == AFFINE_GAPS ? &pair_gaps : &pair;
}

static MPI_Datatype operand_type(int operation)
{
    static const MPI_Datatype *const derived[] = { &pair.type, &pair_gaps.type };
    return operation <= MAX_INT        ? MPI_INT
           : operation == SUM_DOUBLE   ? MPI_DOUBLE
           : operation == MAXLOC       ? MPI_2INT
                                       : *derived[operation - AFFINE];
}

static MPI_Op operand_op(int operation)
{
    return operation == SUM_INT || operation == SUM_DOUBLE ? MPI_SUM
           : operation == MAX_INT                          ? MPI_MAX
           : operation == MAXLOC                           ? MPI_MAXLOC
                                                           : affine;
}

/** Element k of rank `id`, as one or two ints. */
static void operand(int operation, int id, long k, int32_t *x)
{
    double d = value(id, k) / 65536; /* a whole number: sums are exact */
    x[0] = value(id, 2 * k);
    x[1] = value(id, 2 * k + 1);
    if (operation == SUM_DOUBLE)
        memcpy(x, &d, sizeof d);
    if (operation == MAXLOC)
        x[0] &= 3, x[1] &= 0xffff;
}

static void combine(int operation, const int32_t *x, int32_t *y)
{
    double a, b;
    switch (operation) {
    case SUM_INT: y[0] = (int32_t)((uint32_t)x[0] + (uint32_t)y[0]); break;
    case MAX_INT: y[0] = x[0] > y[0] ? x[0] : y[0]; break;
    case SUM_DOUBLE:
        memcpy(&a, x, sizeof a);
        memcpy(&b, y, sizeof b);
        b += a;
        memcpy(y, &b, sizeof b);
        break;
    case MAXLOC:
        if (x[0] == y[0])
            y[1] = x[1] < y[1] ? x[1] : y[1];
        else if (x[0] > y[0])
            y[0] = x[0], y[1] = x[1];
        break;
    default: compose(x, y, y);
    }
}

/** Elements [from, from + n) folded over ranks [0, last]. */
static void put_fold(int32_t *to, int operation, int last, long from, long n)
{
    const struct layout *l = operand_layout(operation);
    for (long k = 0; k < n; k++) {
        int32_t y[2], x[2];
        operand(operation, last, from + k, y);
        for (int r = last - 1; r >= 0; r--) {
            operand(operation, r, from + k, x);
            combine(operation, x, y);
        }
        for (int j = 0; j < l->n; j++)
            to[k * l->extent + l->offset[j]] = y[j];
    }
}

static void put_operand(int32_t *to, int operation, int id, long n)
{
    const struct layout *l = operand_layout(operation);
    for (long k = 0; k < n; k++) {
        int32_t x[2];
        operand(operation, id, k, x);
        for (int j = 0; j < l->n; j++)
            to[k * l->extent + l->offset[j]] = x[j];
    }
}

static void call_reduction(const struct params *p, const void *send, void *receive,
                           const int *counts, int rank, MPI_Comm comm)
{
    MPI_Datatype type = operand_type(p->operation);
    MPI_Op op = operand_op(p->operation);
    const void *s = p->in_place ? MPI_IN_PLACE : send;
    switch (p->what) {
    case REDUCE:
        if (rank != p->root)
            s = send;
        MPI_Reduce(s, receive, p->count, type, op, p->root, comm);
        break;
    case ALLREDUCE: MPI_Allreduce(s, receive, p->count, type, op, comm); break;
    case REDUCE_SCATTER: MPI_Reduce_scatter(s, receive, counts, type, op, comm); break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(s, receive, p->count, type, op, comm);
        break;
    case SCAN: MPI_Scan(s, receive, p->count, type, op, comm); break;
    case EXSCAN: MPI_Exscan(s, receive, p->count, type, op, comm); break;
    }
}

static void run_reduction(const struct params *p, int rank, int size, MPI_Comm comm)
{
    const struct layout *l = operand_layout(p->operation);
    int counts[MAX_RANKS], last = size - 1, gets = 1;
    long total = p->count, from = 0, mine = p->count;
    for (int r = 0; r < size; r++)
        counts[r] = p->what == REDUCE_SCATTER ? p->count * (r % 3) / 2 : p->count;
    if (p->what == REDUCE_SCATTER || p->what == REDUCE_SCATTER_BLOCK) {
        total = 0;
        for (int r = 0; r < size; r++) {
            from += r < rank ? counts[r] : 0;
            total += counts[r];
        }
        mine = counts[rank];
    } else if (p->what == REDUCE) {
        gets = rank == p->root;
    } else if (p->what == SCAN || p->what == EXSCAN) {
        last = p->what == SCAN ? rank : rank - 1;
        gets = last >= 0;
    }
    int in_place = p->in_place && (p->what != REDUCE || rank == p->root);
    size_t ints = ints_for(total, l);
    int32_t *send = make(ints, p->where), *receive = make(ints, p->where),
            *want = make(ints, 0);
    put_operand(in_place ? receive : send, p->operation, rank, total);
    memcpy(want - MARGIN, receive - MARGIN, ints * sizeof *want);
    if (gets)
        put_fold(want, p->operation, last, from, mine);
    call_reduction(p, send, receive, counts, rank, comm);
    if (in_place && from + mine < total + from && p->what != REDUCE && mine < total)
        /* In place reduce_scatter may leave anything behind its result. */
        memcpy(want + mine * l->extent, receive + mine * l->extent,
               (size_t)((total - mine) * l->extent) * sizeof *want);
    compare(receive, want, ints, rank);
    unmake(send, ints, p->where);
    unmake(receive, ints, p->where);
    unmake(want, ints, 0);
}

#endif
