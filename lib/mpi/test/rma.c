/*
 * rma: rounds of random one-sided operations in random epochs, against what
 * each rank computes alone (rma.h), on three windows in turn: by
 * MPI_Win_allocate, and by MPI_Win_create over heaps.
 *
 *     rma ROUNDS SEED [mixed | own]
 *
 * mixed: peers do not reach the last window, so that the component falls back
 * (puts and gets between fences only: what serves it is not what is tested);
 * own: all by MPI_Win_allocate, for Open MPI's osc/sm, which has no others.
 */
#include "rma.h"

enum { ITEMS = 24, REGION = 1 << 16, UNITS = 5 };
enum epoch { FENCE, PSCW, LOCKS, LOCK_ALL, EPOCHS };

static int rank, size, wrong, own, mixed;
static int on, during; /* which window, which epoch */
static struct item items[ITEMS];
static char *buffers;
static struct window {
    MPI_Win win;
    char *memory;
    MPI_Aint bytes;
    int falls_back;
} windows[3];
static MPI_Group world;
static char unreachable[MAX_RANKS * REGION];
static const int units[UNITS] = { 1, 2, 4, 8, 16 };

static int unit_of(const struct window *w, int r)
{
    return units[(r + (int)(w - windows)) % UNITS];
}

static void expect(int right, const char *what, const struct item *t)
{
    if (right || wrong++ >= 5)
        return;
    fprintf(stderr, "rank %d: %s", rank, what);
    if (t)
        fprintf(stderr, " on window %d in epoch %d: kind %d type %d op %d elements %d times %d "
                        "layouts %d %d %d from %d to %d at %ld",
                on, during, t->kind, t->type, t->op, t->elements, t->repeats, t->from, t->to, t->result, t->origin,
                t->target, (long)t->offset);
    fputc('\n', stderr);
}

static void make_windows(void)
{
    for (int i = 0; i < 3; i++) {
        struct window *w = &windows[i];
        w->bytes = (MPI_Aint)size * REGION;
        w->falls_back = i == 2 && mixed;
        w->memory = w->falls_back && rank == 1 ? unreachable : malloc((size_t)w->bytes);
        if (i == 0 || own) {
            free(w->memory);
            MPI_Win_allocate(w->bytes, unit_of(w, rank), MPI_INFO_NULL, MPI_COMM_WORLD,
                             &w->memory, &w->win);
        } else {
            MPI_Win_create(w->memory, w->bytes, unit_of(w, rank), MPI_INFO_NULL, MPI_COMM_WORLD,
                           &w->win);
        }
    }
}

static void free_windows(void)
{
    for (int i = 0; i < 3; i++) {
        MPI_Win_free(&windows[i].win);
        if (i > 0 && !own && windows[i].memory != unreachable)
            free(windows[i].memory);
    }
}

static int op_suits(const struct item *t)
{
    int op = ops[t->op].op == MPI_NO_OP && t->kind == ACCUMULATE ? 0 : 1;
    return op && (ops[t->op].groups & types[t->type].group);
}

/** Open MPI's own components lose elements of MPI_SHORT_INT in derived datatypes. */
static int is_left_out(const struct item *t, const struct window *w)
{
    return w->falls_back ? t->kind > GET
                         : own && t->kind >= ACCUMULATE && types[t->type].type == MPI_SHORT_INT;
}

static void draw_item(struct item *t, const struct window *w, MPI_Aint *used, int epoch)
{
    do {
        *t = (struct item){ .origin = draw(size), .target = draw(size), .kind = draw(KINDS),
                            .type = draw(TYPES), .op = draw(OPS), .from = draw(LAYOUTS),
                            .to = draw(LAYOUTS), .result = draw(LAYOUTS),
                            .elements = 2 * (1 + draw(draw(3) ? 8 : MAX_ELEMENTS / 2)),
                            .by_request = epoch >= LOCKS && draw(3) == 0 };
        t->repeats = t->kind >= ACCUMULATE ? 1 + draw(MAX_REPEATS) : 1;
        if (t->kind >= FETCH_AND_OP) {
            t->elements = 1;
            t->from = t->to = t->result = PLAIN;
        }
        if (t->kind >= ACCUMULATE && draw(4) == 0 && t->kind < FETCH_AND_OP) {
            t->elements = 1; /* by one instruction, where the type allows it */
            t->from = t->to = t->result = PLAIN;
        }
    } while (!op_suits(t) || is_left_out(t, w) ||
             (t->kind == COMPARE_AND_SWAP && types[t->type].group != INTEGERS));
    MPI_Aint *cursor = &used[t->origin * size + t->target];
    t->offset = t->origin * REGION + *cursor;
    *cursor += (range_bytes(t) + ALIGN - 1) / ALIGN * ALIGN;
    if (*cursor > REGION) /* full: nothing */
        t->elements = 0;
    else if (t->kind <= GET && unit_of(w, t->target) == 1)
        t->offset += draw(2); /* nothing is aligned; its range has an element to spare */
}

/** Everybody's memory as the round begins. */
static void prepare(struct window *w)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w->win);
    for (MPI_Aint i = 0; i < w->bytes; i++)
        w->memory[i] = (char)(i * 7 + 3);
    for (int n = 0; n < ITEMS; n++)
        for (int i = 0; i < items[n].elements && items[n].target == rank; i++)
            initial_element(w->memory + items[n].offset +
                                place_of(items[n].to, i) * extent_of(items[n].type),
                            &items[n], i);
    MPI_Win_unlock(rank, w->win);
    char *next = buffers;
    for (int n = 0; n < ITEMS; n++)
        for (int k = 0; k < items[n].repeats; k++) {
            struct item *t = &items[n];
            t->data[k] = next;
            t->fetched[k] = next + BUFFER_BYTES;
            next += t->origin == rank ? 2 * BUFFER_BYTES : 0;
            for (int i = 0; i < t->elements && t->origin == rank; i++)
                given_element(t->data[k] + place_of(t->from, i) * extent_of(t->type), t, k, i);
        }
    MPI_Barrier(MPI_COMM_WORLD);
}

/** An item, as MPI is called for it. */
struct call {
    int n, m, f; /* counts: of the origin, the target and what is fetched */
    MPI_Datatype from, to, result;
    MPI_Aint at;
};

static void call_by_request(const struct item *t, const struct call *d, void *data, void *fetched,
                            MPI_Win win)
{
    MPI_Request r;
    MPI_Op op = ops[t->op].op;
    switch (t->kind) {
    case PUT: MPI_Rput(data, d->n, d->from, t->target, d->at, d->m, d->to, win, &r); break;
    case GET: MPI_Rget(fetched, d->f, d->result, t->target, d->at, d->m, d->to, win, &r); break;
    case ACCUMULATE:
        MPI_Raccumulate(data, d->n, d->from, t->target, d->at, d->m, d->to, op, win, &r);
        break;
    default:
        MPI_Rget_accumulate(data, d->n, d->from, fetched, d->f, d->result, t->target, d->at, d->m,
                            d->to, op, win, &r);
    }
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void swap(const struct item *t, int k, MPI_Aint at, MPI_Win win)
{
    char compared[MAX_ELEMENT_BYTES], there[MAX_ELEMENT_BYTES];
    initial_element(there, t, 0);
    for (int j = 0; j < k; j++)
        do_element(t, j, 0, there);
    compared_element(compared, t, k, there);
    MPI_Compare_and_swap(t->data[k], compared, t->fetched[k], types[t->type].type, t->target, at,
                         win);
    MPI_Win_flush_local_all(win); /* `compared` ends here */
}

static void call_now(const struct item *t, int k, const struct call *d, MPI_Win win)
{
    void *data = t->data[k], *fetched = t->fetched[k];
    MPI_Op op = ops[t->op].op;
    switch (t->kind) {
    case PUT: MPI_Put(data, d->n, d->from, t->target, d->at, d->m, d->to, win); break;
    case GET: MPI_Get(fetched, d->f, d->result, t->target, d->at, d->m, d->to, win); break;
    case ACCUMULATE:
        MPI_Accumulate(data, d->n, d->from, t->target, d->at, d->m, d->to, op, win);
        break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(data, d->n, d->from, fetched, d->f, d->result, t->target, d->at, d->m,
                           d->to, op, win);
        break;
    case FETCH_AND_OP:
        MPI_Fetch_and_op(data, fetched, types[t->type].type, t->target, d->at, op, win);
        break;
    default: swap(t, k, d->at, win);
    }
}

static void call(const struct item *t, int k, MPI_Win win, int unit)
{
    struct call d = { .at = t->offset / unit };
    d.from = derive(t->from, t->type, t->elements, &d.n);
    d.to = derive(t->to, t->type, t->elements, &d.m);
    d.result = derive(t->result, t->type, t->elements, &d.f);
    if (t->by_request && t->kind < FETCH_AND_OP)
        call_by_request(t, &d, t->data[k], t->fetched[k], win);
    else
        call_now(t, k, &d, win);
    forget(t->from, &d.from);
    forget(t->to, &d.to);
    forget(t->result, &d.result);
}

static void call_item(const struct item *t, const struct window *w)
{
    for (int k = 0; k < t->repeats; k++)
        call(t, k, w->win, unit_of(w, t->target));
}

/** Ranks that have items with this one, as their origin or as their target. */
static MPI_Group partners(int as_origins)
{
    int in[MAX_RANKS] = { 0 }, ranks[MAX_RANKS], n = 0;
    MPI_Group group;
    for (int i = 0; i < ITEMS; i++)
        if (items[i].elements > 0 && (as_origins ? items[i].target : items[i].origin) == rank)
            in[as_origins ? items[i].origin : items[i].target] = 1;
    for (int r = size - 1; r >= 0; r--)
        if (in[r])
            ranks[n++] = r;
    MPI_Group_incl(world, n, ranks, &group);
    return group;
}

static void run_in_pscw(const struct window *w)
{
    MPI_Group origins = partners(1), targets = partners(0);
    MPI_Win_post(origins, draw(2) ? MPI_MODE_NOSTORE : 0, w->win);
    MPI_Win_start(targets, 0, w->win);
    for (int n = 0; n < ITEMS; n++)
        if (items[n].origin == rank && items[n].elements > 0)
            call_item(&items[n], w);
    MPI_Win_complete(w->win);
    int done = 0;
    if (draw(2))
        MPI_Win_wait(w->win);
    else
        while (!done)
            MPI_Win_test(w->win, &done);
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

static void run_item(const struct item *t, const struct window *w, int epoch)
{
    int how = (int)(t->offset / ALIGN) % 4;
    if (epoch == LOCKS)
        MPI_Win_lock(how % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, t->target, 0, w->win);
    call_item(t, w);
    if (epoch == LOCK_ALL && how == 0)
        MPI_Win_flush(t->target, w->win);
    if (epoch == LOCK_ALL && how == 1)
        MPI_Win_flush_all(w->win);
    if (epoch == LOCK_ALL && how == 2)
        MPI_Win_flush_local(t->target, w->win);
    if (epoch == LOCKS)
        MPI_Win_unlock(t->target, w->win);
}

static void run_items(const struct window *w, int epoch)
{
    if (epoch == FENCE)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
    if (epoch == LOCK_ALL)
        MPI_Win_lock_all(draw(2) ? MPI_MODE_NOCHECK : 0, w->win);
    for (int n = 0; n < ITEMS; n++)
        if (items[n].origin == rank && items[n].elements > 0)
            run_item(&items[n], w, epoch);
    if (epoch == FENCE)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    if (epoch == LOCK_ALL)
        MPI_Win_unlock_all(w->win);
}

static void judge_item(const struct item *t, const char *memory, char *want)
{
    MPI_Aint extent = extent_of(t->type);
    for (int i = 0; i < t->elements; i++) {
        char there[MAX_ELEMENT_BYTES];
        MPI_Aint at = place_of(t->to, i) * extent;
        initial_element(there, t, i);
        for (int k = 0; k < t->repeats; k++) {
            const char *got = t->fetched[k] + place_of(t->result, i) * extent;
            if (t->origin == rank && t->kind != PUT && t->kind != ACCUMULATE)
                expect(same_element(got, there, t->type), "what was fetched differs", t);
            do_element(t, k, i, there);
        }
        if (t->target != rank)
            continue;
        expect(same_element(memory + t->offset + at, there, t->type), "memory differs", t);
        memcpy(want + t->offset + at, memory + t->offset + at, (size_t)extent);
    }
}

/** Items as they should be, and everything else untouched. */
static void judge(const struct window *w)
{
    char *want = malloc((size_t)w->bytes);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->win);
    for (MPI_Aint i = 0; i < w->bytes; i++)
        want[i] = (char)(i * 7 + 3);
    for (int n = 0; n < ITEMS; n++)
        judge_item(&items[n], w->memory, want);
    expect(memcmp(want, w->memory, (size_t)w->bytes) == 0, "something else was written", NULL);
    MPI_Win_unlock(rank, w->win);
    free(want);
}

static void run_round(int round)
{
    struct window *w = &windows[round % 3];
    MPI_Aint used[MAX_RANKS * MAX_RANKS] = { 0 };
    int epoch = during = w->falls_back ? FENCE : draw(EPOCHS);
    on = round % 3;
    for (int n = 0; n < ITEMS; n++)
        draw_item(&items[n], w, used, epoch);
    for (int n = 0; n < ITEMS; n++)
        /* it is only complete after a call that no active epoch may have */
        if (epoch < LOCKS && items[n].kind == COMPARE_AND_SWAP)
            items[n].elements = 0;
    prepare(w);
    uint64_t common = state;
    if (epoch == PSCW)
        run_in_pscw(w);
    else
        run_items(w, epoch);
    state = common; /* those of one rank only do not count */
    MPI_Barrier(MPI_COMM_WORLD);
    judge(w);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int all, rounds = argc > 1 ? atoi(argv[1]) : 60;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > MAX_RANKS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    mixed = argc > 3 && strcmp(argv[3], "mixed") == 0;
    own = argc > 3 && strcmp(argv[3], "own") == 0;
    buffers = malloc((size_t)ITEMS * MAX_REPEATS * 2 * BUFFER_BYTES);
    make_windows();
    if (rank == 0)
        fprintf(stderr, "rma: running\n");
    for (int round = 0; round < rounds; round++)
        run_round(round);
    free_windows();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("rma: %d ranks, %d rounds: %d wrong\n", size, rounds, all);
    MPI_Finalize();
    return all != 0;
}
