// One-sided communication: windows of all kinds, all ways to synchronise, and memory that ranks share.
#include "conform.h"

enum { N = 5000 };
#define W MPI_COMM_WORLD

// Puts, gets and accumulations between fences; the window is `n` integers of each rank.
static int fenced(MPI_Win window, int *mine)
{
    static int out[N], in[N];
    int right = 1;
    memset(mine, 0, N * sizeof *mine);
    fill(out, N, rank);
    MPI_Win_fence(0, window);
    MPI_Put(out, N, MPI_INT, next, 0, N, MPI_INT, window);
    MPI_Win_fence(0, window);
    right &= is_from(mine, N, last);
    MPI_Win_fence(0, window);
    MPI_Get(in, N, MPI_INT, next, 0, N, MPI_INT, window);
    MPI_Win_fence(0, window);
    right &= is_from(in, N, rank);
    MPI_Win_fence(0, window);
    MPI_Accumulate(out, N, MPI_INT, 0, 0, N, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; rank == 0 && i < N; i++) {
        int sum = value(last, i);
        for (int r = 0; r < size; r++)
            sum += value(r, i);
        right &= mine[i] == sum;
    }
    return right;
}

// Every second element by a type of its own.
static int typed(MPI_Win window, int *mine)
{
    static int out[N];
    MPI_Datatype second;
    int right = 1;
    memset(mine, 0, N * sizeof *mine);
    fill(out, N, rank);
    MPI_Type_vector(N / 2, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&second);
    MPI_Win_fence(0, window);
    MPI_Put(out, N / 2, MPI_INT, next, 0, 1, second, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < N; i++)
        right &= mine[i] == (i % 2 ? 0 : value(last, i / 2));
    MPI_Type_free(&second);
    return right;
}

// Post and start, complete and wait.
static int posted(MPI_Win window, int *mine)
{
    MPI_Group world, from, to;
    int token = 70 + rank;
    MPI_Comm_group(W, &world);
    MPI_Group_incl(world, 1, &last, &from);
    MPI_Group_incl(world, 1, &next, &to);
    mine[0] = -1;
    MPI_Barrier(W);
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Put(&token, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Group_free(&world);
    MPI_Group_free(&from);
    MPI_Group_free(&to);
    return mine[0] == 70 + last;
}

// Counters of rank 0 that all count, by the lock of the window and by single operations.
static int counted(MPI_Win window, int *mine)
{
    enum { TIMES = 100 };
    int one = 1, before, seen[TIMES], right = 1;
    memset(mine, 0, N * sizeof *mine);
    MPI_Barrier(W);
    for (int i = 0; i < TIMES; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&before, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        before++;
        MPI_Put(&before, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < TIMES; i++) {
        MPI_Fetch_and_op(&one, &seen[i], MPI_INT, 0, 1, MPI_SUM, window);
        MPI_Win_flush(0, window);
        right &= i == 0 || seen[i] > seen[i - 1];
        for (int old = 0, was = -1; was != old;) {
            // Until no other rank came between.
            MPI_Fetch_and_op(NULL, &old, MPI_INT, 0, 2, MPI_NO_OP, window);
            MPI_Win_flush(0, window);
            int new = old + 1;
            MPI_Compare_and_swap(&new, &old, &was, MPI_INT, 0, 2, window);
            MPI_Win_flush(0, window);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(W);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int i = 0; rank == 0 && i < 3; i++)
        right &= mine[i] == TIMES * size;
    MPI_Win_unlock(rank, window);
    return right;
}

static int with_requests(MPI_Win window, int *mine)
{
    static int out[N], in[N], got[N];
    MPI_Request request;
    int right = 1;
    fill(mine, N, rank);
    fill(out, N, rank);
    MPI_Barrier(W);
    MPI_Win_lock_all(0, window);
    MPI_Rget(in, N, MPI_INT, next, 0, N, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    right &= is_from(in, N, next);
    MPI_Win_flush_all(window);
    MPI_Barrier(W);
    MPI_Rget_accumulate(out, N, MPI_INT, got, N, MPI_INT, next, 0, N, MPI_INT, MPI_SUM, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    right &= is_from(got, N, next);
    MPI_Win_flush_all(window);
    MPI_Barrier(W);
    MPI_Win_unlock_all(window);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int i = 0; i < N; i++)
        right &= mine[i] == value(rank, i) + value(last, i);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(W);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
    MPI_Rput(out, N, MPI_INT, next, 0, N, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock(next, window);
    MPI_Barrier(W);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    right &= is_from(mine, N, last);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(W);
    return right;
}

static void all_ways(MPI_Win window, int *mine, const char *kind)
{
    static const struct {
        int (*way)(MPI_Win, int *);
        const char *name;
    } ways[] = {{fenced, "fences"},
                {typed, "datatypes"},
                {posted, "post, start, complete and wait"},
                {counted, "locks and atomic operations"},
                {with_requests, "requests"}};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        char name[80];
        int right = ways[i].way(window, mine);
        MPI_Barrier(W);
        snprintf(name, sizeof name, "%s: %s", kind, ways[i].name);
        agree(right, name);
    }
}

static void dynamic(void)
{
    static int memory[N];
    MPI_Win window;
    MPI_Aint mine, its;
    int out[10], right;
    MPI_Win_create_dynamic(MPI_INFO_NULL, W, &window);
    MPI_Win_attach(window, memory, sizeof memory);
    MPI_Get_address(memory, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, last, 1, &its, 1, MPI_AINT, next, 1, W, MPI_STATUS_IGNORE);
    fill(out, 10, rank);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
    MPI_Put(out, 10, MPI_INT, next, MPI_Aint_add(its, 400), 10, MPI_INT, window);
    MPI_Win_unlock(next, window);
    MPI_Barrier(W);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    right = is_from(memory + 100, 10, last);
    MPI_Win_unlock(rank, window);
    agree(right, "dynamic: memory attached later");
    MPI_Barrier(W);
    MPI_Win_detach(window, memory);
    MPI_Win_free(&window);
}

// Ranks load and store directly what is the others'.
static void shared(int contiguous)
{
    MPI_Win window;
    MPI_Info info;
    MPI_Aint bytes;
    int *mine, *its, unit, *model, flag, right = 1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", contiguous ? "false" : "true");
    // Some ranks have none of it, and one has more than a huge page.
    MPI_Aint share = (rank == 0 ? 700000 : N + rank) * sizeof(int);
    MPI_Win_allocate_shared(share, sizeof(int), info, W, &mine, &window);
    MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &flag);
    right &= flag && *model == MPI_WIN_UNIFIED;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    fill(mine, N, rank);
    MPI_Win_sync(window);
    MPI_Barrier(W);
    MPI_Win_sync(window);
    for (int r = 0; r < size; r++) {
        MPI_Win_shared_query(window, r, &bytes, &unit, &its);
        right &= unit == sizeof(int) && bytes >= (MPI_Aint)((r == 0 ? 700000 : N + r) * sizeof(int)) && is_from(its, N, r);
    }
    MPI_Barrier(W);
    // Atomic additions of the processor itself, and those of MPI.
    MPI_Win_shared_query(window, 0, &bytes, &unit, &its);
    if (rank == 0)
        its[0] = its[1] = 0;
    MPI_Win_sync(window);
    MPI_Barrier(W);
    for (int i = 0; i < 1000; i++) {
        int one = 1, before;
        __atomic_fetch_add(&its[0], 1, __ATOMIC_SEQ_CST);
        if (i % 10 == 0)
            MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 1, MPI_SUM, window);
    }
    MPI_Win_flush_all(window);
    MPI_Barrier(W);
    MPI_Win_sync(window);
    right &= its[0] == 1000 * size && its[1] == 100 * size;
    MPI_Win_unlock_all(window);
    agree(right, contiguous ? "shared: loads, stores and atomic additions" : "shared, each part by itself");
    MPI_Win_free(&window);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    static int memory[N];
    int *mine, flavour, *found, flag;
    MPI_Win window;
    begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, W, &window);
    all_ways(window, memory, "create");
    MPI_Win_free(&window);
    MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, W, &mine, &window);
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &found, &flag);
    flavour = *found;
    agree(flag && flavour == MPI_WIN_FLAVOR_ALLOCATE, "the flavour of a window");
    all_ways(window, mine, "allocate");
    MPI_Win_free(&window);
    MPI_Win_allocate_shared(N * sizeof(int), sizeof(int), MPI_INFO_NULL, W, &mine, &window);
    all_ways(window, mine, "shared");
    MPI_Win_free(&window);
    shared(1);
    shared(0);
    dynamic();
    // Windows come and go.
    int right = 1;
    for (int i = 0; i < 20; i++) {
        MPI_Win_allocate_shared(65536, 1, MPI_INFO_NULL, W, &mine, &window);
        mine[0] = rank;
        MPI_Win_fence(0, window);
        right &= mine[0] == rank;
        MPI_Win_free(&window);
    }
    agree(right, "twenty windows one after another");
    return end();
}
