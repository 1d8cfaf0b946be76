/*
 * windows: what random operations (rma.c) do not meet: counters and locks used
 * by all ranks at once, epochs without barriers around them, errors, messages
 * meanwhile, sizes of nothing.
 *
 *     windows [own]     own: for Open MPI's osc/sm, without what it does not give
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 300, WORDS = 8, MANY = 512, LIMIT_S = 100, LONG_INTS = 200000 };

static int rank, size, wrong, own;

static void expect(int right, const char *what)
{
    if (!right && wrong++ < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void expect_error(int error, int want, const char *what)
{
    int class;
    MPI_Error_class(error, &class);
    expect(class == want, what);
}

static int64_t *make(size_t count, MPI_Info info, MPI_Win *win)
{
    int64_t *words;
    MPI_Win_allocate((MPI_Aint)(count * sizeof *words), sizeof *words, info, MPI_COMM_WORLD,
                     &words, win);
    MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, *win);
    memset(words, 0, count * sizeof *words);
    MPI_Win_unlock(rank, *win);
    MPI_Barrier(MPI_COMM_WORLD);
    return words;
}

/** Each number of a counter is had once. */
static void counter(void)
{
    MPI_Win win;
    int64_t one = 1, got, sum = 0, all, last = -1;
    make(WORDS, MPI_INFO_NULL, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < TURNS; i++) {
        MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        expect(got > last, "a counter goes back");
        sum += last = got;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    int64_t n = (int64_t)size * TURNS;
    expect(all == n * (n - 1) / 2, "a number was had twice");
    MPI_Win_free(&win);
}

static void add_by_swap(MPI_Win win, int at)
{
    int64_t seen = 0, want, next;
    do {
        want = seen;
        next = want + 1;
        MPI_Compare_and_swap(&next, &want, &seen, MPI_INT64_T, 0, at, win);
        MPI_Win_flush(0, win);
    } while (seen != want);
}

/** One element, several and MPI_Compare_and_swap on the same words at once lose nothing. */
static void atomic(void)
{
    MPI_Win win;
    int64_t ones[MANY], got[MANY], sum = 0;
    int64_t *words = make(MANY, MPI_INFO_NULL, &win);
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 10 * TURNS; i++) {
        int at = i * 7 % MANY;
        switch ((i + rank) % 2 ? 0 : i / 2 % 4) {
        case 0: MPI_Fetch_and_op(ones, got, MPI_INT64_T, 0, at, MPI_SUM, win); break;
        case 1:
            MPI_Accumulate(ones, MANY, MPI_INT64_T, 0, 0, MANY, MPI_INT64_T, MPI_SUM, win);
            break;
        case 2:
            MPI_Get_accumulate(ones, MANY, MPI_INT64_T, got, MANY, MPI_INT64_T, 0, 0, MANY,
                               MPI_INT64_T, MPI_SUM, win);
            break;
        default: add_by_swap(win, at);
        }
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t want = 0;
    for (int i = 0; i < 10 * TURNS * size; i++) {
        int turn = i / size, what = (turn + i % size) % 2 ? 0 : turn / 2 % 4;
        want += what == 1 || what == 2 ? MANY : 1;
    }
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < MANY; i++)
        sum += words[i];
    MPI_Win_unlock(rank, win);
    expect(rank != 0 || sum == want, "an accumulate was lost");
    MPI_Win_free(&win);
}

/** In each window anew: several elements for the first time, while others change one at a time. */
static void first_folds(void)
{
    enum { ADDS = 24 };
    int64_t ones[MANY], got;
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    for (int i = 0; i < TURNS; i++) {
        MPI_Win win;
        int64_t *words = make(MANY, MPI_INFO_NULL, &win), sum = 0;
        MPI_Win_lock_all(0, win);
        for (int add = 0; add < ADDS; add++) {
            if (add == i % ADDS && rank == i % size)
                MPI_Accumulate(ones, MANY, MPI_INT64_T, 0, 0, MANY, MPI_INT64_T, MPI_SUM, win);
            MPI_Fetch_and_op(ones, &got, MPI_INT64_T, 0, (add * 37 + i) % MANY, MPI_SUM, win);
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int w = 0; w < MANY; w++)
            sum += words[w];
        MPI_Win_unlock(rank, win);
        expect(rank != 0 || sum == MANY + (int64_t)ADDS * size, "the first fold lost an accumulate");
        MPI_Win_free(&win);
    }
}

/** What the right has written, and what the left has put: by nothing but the epochs. */
static void epochs(int by_fence)
{
    MPI_Win win;
    MPI_Group world, left, right;
    int l = (rank + size - 1) % size, r = (rank + 1) % size;
    int64_t *words = make(WORDS, MPI_INFO_NULL, &win), got, put;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &l, &left);
    MPI_Group_incl(world, 1, &r, &right);
    for (int i = 1; i <= TURNS; i++) {
        put = words[0] = i * size + rank;
        if (by_fence) {
            MPI_Win_fence(0, win);
        } else {
            MPI_Win_post(left, 0, win);
            MPI_Win_start(right, 0, win);
        }
        MPI_Get(&got, 1, MPI_INT64_T, r, 0, 1, MPI_INT64_T, win);
        MPI_Put(&put, 1, MPI_INT64_T, r, 1, 1, MPI_INT64_T, win);
        if (by_fence) {
            MPI_Win_fence(0, win);
        } else {
            MPI_Win_complete(win);
            MPI_Win_wait(win);
        }
        expect(got == i * size + r, "an epoch begins before its target's");
        expect(words[1] == i * size + l, "an epoch ends before its origin's");
    }
    MPI_Group_free(&world);
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Win_free(&win);
}

/** Who writes two words is alone; who reads them finds them equal. */
static void locks(void)
{
    MPI_Win win;
    int64_t pair[2];
    int64_t *words = make(WORDS, MPI_INFO_NULL, &win);
    for (int i = 0; i < TURNS; i++) {
        int reads = (i + rank) % 3 == 0;
        MPI_Win_lock(reads ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(pair, 2, MPI_INT64_T, 0, 0, 2, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        expect(pair[0] == pair[1], "a shared and an exclusive lock at once");
        pair[0]++;
        pair[1]++;
        if (!reads) {
            MPI_Put(&pair[0], 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
            MPI_Put(&pair[1], 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, win);
        }
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t writes = 0;
    for (int i = 0; i < TURNS; i++)
        for (int r = 0; r < size; r++)
            writes += (i + r) % 3 != 0;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    expect(rank != 0 || words[0] == writes, "two exclusive locks at once");
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/** MPI_Win_lock_all must not have one lock while it waits for another. */
static void all_and_two(void)
{
    MPI_Win win;
    make(WORDS, MPI_INFO_NULL, &win);
    for (int i = 0; i < TURNS; i++) {
        if (rank % 2 == 0) {
            MPI_Win_lock_all(0, win);
            MPI_Win_unlock_all(win);
        } else {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, win);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Win_unlock(0, win);
            MPI_Win_unlock(size - 1, win);
        }
    }
    MPI_Win_free(&win);
}

/** A message in pieces gets on while its sender polls a word. */
static void polling(void)
{
    MPI_Win win;
    MPI_Datatype gaps;
    MPI_Request request;
    int64_t flag = 0, one = 1;
    int *data = calloc(2 * LONG_INTS, sizeof *data);
    time_t end = time(NULL) + LIMIT_S;
    make(WORDS, MPI_INFO_NULL, &win);
    MPI_Type_vector(LONG_INTS, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Isend(data, 1, gaps, 1, 0, MPI_COMM_WORLD, &request);
        while (flag == 0 && time(NULL) < end) {
            MPI_Fetch_and_op(NULL, &flag, MPI_INT64_T, 0, 0, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
        }
        expect(flag == 1, "a message starves while its sender polls a window");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(data, 1, gaps, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_REPLACE, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Type_free(&gaps);
    MPI_Win_free(&win);
    free(data);
}

static void errors_of_epochs(MPI_Win win, MPI_Group group)
{
    int flag, word = 0;
    expect_error(MPI_Put(&word, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC,
                 "a put without an epoch");
    expect_error(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC, "an unlock without a lock");
    expect_error(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC, "an unlock_all without a lock");
    expect_error(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC, "a flush without a lock");
    expect_error(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC, "a flush_all without a lock");
    expect_error(MPI_Win_wait(win), MPI_ERR_RMA_SYNC, "a wait without a post");
    expect_error(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC, "a test without a post");
    expect_error(MPI_Win_complete(win), MPI_ERR_RMA_SYNC, "a complete without a start");
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    expect_error(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC, "a lock twice");
    expect_error(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC, "lock_all with a lock");
    expect_error(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC, "a fence with a lock");
    expect_error(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC, "a start with a lock");
    expect_error(MPI_Put(&word, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win),
                 MPI_ERR_RMA_SYNC, "a put where there is no lock");
    MPI_Win_unlock(rank, win);
}

/** What lies outside of a target's part is not touched. */
static void errors_of_ranges(MPI_Win win, const int64_t *words)
{
    int64_t two[2] = { 7, 7 };
    MPI_Datatype before;
    MPI_Type_create_hindexed_block(1, 1, (MPI_Aint[]){ -8 }, MPI_INT64_T, &before);
    MPI_Type_commit(&before);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    expect_error(MPI_Put(two, 2, MPI_INT64_T, rank, WORDS - 1, 2, MPI_INT64_T, win),
                 MPI_ERR_RMA_RANGE, "a put beyond the end");
    expect_error(MPI_Get(two, 1, MPI_INT64_T, rank, INT64_MAX / 8, 1, MPI_INT64_T, win),
                 MPI_ERR_RMA_RANGE, "a get far beyond the end");
    expect_error(MPI_Put(two, 1, MPI_INT64_T, rank, INT64_MAX / 4, 1, MPI_INT64_T, win),
                 MPI_ERR_RMA_RANGE, "a displacement that wraps");
    expect_error(MPI_Accumulate(two, 2, MPI_INT64_T, rank, WORDS - 1, 2, MPI_INT64_T, MPI_SUM, win),
                 MPI_ERR_RMA_RANGE, "an accumulate beyond the end");
    expect_error(MPI_Fetch_and_op(two, two, MPI_INT64_T, rank, WORDS, MPI_SUM, win),
                 MPI_ERR_RMA_RANGE, "a fetch_and_op beyond the end");
    expect_error(MPI_Compare_and_swap(two, two, two, MPI_INT64_T, rank, WORDS, win),
                 MPI_ERR_RMA_RANGE, "a compare_and_swap beyond the end");
    expect_error(MPI_Put(two, 1, MPI_INT64_T, rank, 0, 1, before, win), MPI_ERR_RMA_RANGE,
                 "a put before the beginning");
    expect_error(MPI_Put(two, 1, MPI_INT64_T, rank, -1, 1, MPI_INT64_T, win), MPI_ERR_DISP,
                 "a negative displacement");
    expect_error(MPI_Put(two, 2, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, win), MPI_ERR_TRUNCATE,
                 "more than the target takes");
    expect_error(MPI_Put(NULL, 0, MPI_INT64_T, rank, 0, 0, MPI_INT64_T, win), MPI_SUCCESS,
                 "a put of nothing");
    expect(words[0] == 7 && words[1] == 0 && words[WORDS - 1] == 0, "an error wrote something");
    MPI_Win_unlock(rank, win);
    MPI_Type_free(&before);
}

static void errors(void)
{
    MPI_Win win, no_locks;
    MPI_Group world;
    MPI_Info info, used;
    MPI_Aint bytes;
    int unit, *model, flag, found;
    char value[8];
    void *base;
    int64_t *words = make(WORDS, MPI_INFO_NULL, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    errors_of_epochs(win, world);
    errors_of_ranges(win, words);
    expect_error(MPI_Win_attach(win, words, 8), MPI_ERR_RMA_ATTACH, "attach");
    expect_error(MPI_Win_shared_query(win, 0, &bytes, &unit, &base), MPI_ERR_RMA_FLAVOR,
                 "shared_query");
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
    expect(flag && *model == MPI_WIN_UNIFIED, "the memory model");
    MPI_Win_free(&win);
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Win_create(words = calloc(1, 64), 64, 8, info, MPI_COMM_WORLD, &no_locks);
    MPI_Win_set_errhandler(no_locks, MPI_ERRORS_RETURN);
    expect_error(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, no_locks), MPI_ERR_RMA_SYNC, "no_locks");
    MPI_Win_get_info(no_locks, &used);
    MPI_Info_get(used, "no_locks", sizeof value - 1, value, &found);
    expect(found && strcmp(value, "true") == 0, "the info of a window");
    MPI_Info_free(&info);
    MPI_Info_free(&used);
    MPI_Group_free(&world);
    MPI_Win_free(&no_locks);
    free(words);
}

/** Ranks that give no memory, and windows one after the other. */
static void sizes(void)
{
    int word = rank, got = -1, giver = size - 1, *base, *memory = malloc(sizeof *memory);
    MPI_Win win;
    for (int i = 0; i < 20; i++) {
        MPI_Aint bytes = rank == giver ? sizeof *memory : 0;
        if (i % 2)
            MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        else
            MPI_Win_create(bytes ? memory : NULL, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        if (rank == 0)
            MPI_Put(&i, 1, MPI_INT, giver, 0, 1, MPI_INT, win);
        MPI_Put(&word, 0, MPI_INT, 0, 0, 0, MPI_INT, win);
        MPI_Put(&word, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        MPI_Get(&got, 1, MPI_INT, giver, 0, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
        expect(got == i, "a window where others give nothing");
        MPI_Win_free(&win);
    }
    free(memory);
}

int main(int argc, char **argv)
{
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    own = argc > 1 && strcmp(argv[1], "own") == 0;
    counter();
    atomic();
    first_folds();
    epochs(0);
    epochs(1);
    locks();
    if (!own) {
        all_and_two();
        polling();
        errors();
        sizes();
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("windows: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
