/*
 * Time collectives and messages in the manner of IMB and OSU: buffers rotate
 * from call to call ("cold": they left the nearer caches) or stay the same
 * ("warm"), results are validated, and each line is one cell of the table.
 * Whatever a library does when it first meets a page of a buffer is timed by
 * itself: the first bcast goes once through memory that no message has been in,
 * and each cell begins with a turn through all of it.
 *
 *     collectives [SAMPLES [cold|warm [BYTES...]]]     prints  name bytes median least
 *
 * A sample is a batch of calls, in microseconds per call as the slower rank
 * saw it.  Batches are short, so that on a busy machine some go undisturbed:
 * `least` is the fastest of them.
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20, FIRST_BYTES = 65536, ROTATE_BYTES = 8 << 20, MAX_SAMPLES = 1001, STREAM = 32,
       MAX_SIZES = 16 };

static char *out_area, *in_area;
static size_t area_bytes, place; /* of the current call */
static int rank, size, wrong, warm;

/** From one place in a rotating buffer to the next; page-aligned. */
static size_t rotation_step(int bytes)
{
    return ((size_t)bytes * (size_t)size + 4095) / 4096 * 4096;
}

typedef void operation_fn(char *out, char *in, int bytes);

/*
 * Limits, in memory that MPI shares, timed as everything else and by the same
 * two processes, because where they run decides them.
 */
static _Atomic uint64_t *flags[2]; /* no prefetch and no alias joins them */
static char *shared_area;          /* rank 1 wrote it, rank 0 reads it */
static MPI_Win window;

static void share(void)
{
    enum { APART = 256, PAGE = 4096 };
    MPI_Aint bytes = rank == 0 ? (MPI_Aint)area_bytes + 2 * PAGE : 0;
    char *base;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
    base = (char *)(((uintptr_t)base + PAGE - 1) / PAGE * PAGE);
    flags[0] = (_Atomic uint64_t *)base;
    flags[1] = (_Atomic uint64_t *)(base + APART);
    shared_area = base + PAGE;
    if (rank == 1)
        memset(base, 0, area_bytes + PAGE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/** A word stored by one until the other sees it; one-way time is half. */
static void do_flag(char *out, char *in, int bytes)
{
    static uint64_t turn;
    (void)out, (void)in, (void)bytes;
    turn++;
    if (rank == 0)
        atomic_store_explicit(flags[0], turn, memory_order_release);
    if (rank < 2)
        while (atomic_load_explicit(flags[1 - rank], memory_order_acquire) < turn)
            __builtin_ia32_pause();
    if (rank == 1)
        atomic_store_explicit(flags[1], turn, memory_order_release);
}

static void do_copy_once(char *out, char *in, int bytes)
{
    (void)out;
    if (rank == 0)
        memcpy(in, shared_area + place, (size_t)bytes);
}

/** By way of a buffer, in pieces. */
static void do_copy_twice(char *out, char *in, int bytes)
{
    static char bounce[8192];
    (void)out;
    for (int at = 0, part; rank == 0 && at < bytes; at += part) {
        part = bytes - at < (int)sizeof bounce ? bytes - at : (int)sizeof bounce;
        memcpy(bounce, shared_area + place + at, (size_t)part);
        __asm__ volatile("" ::: "memory"); /* both copies are made */
        memcpy(in + at, bounce, (size_t)part);
    }
}

static void do_barrier(char *out, char *in, int bytes)
{
    (void)out, (void)in, (void)bytes;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void do_bcast(char *out, char *in, int bytes)
{
    (void)in;
    MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void do_reduce(char *out, char *in, int bytes)
{
    MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void do_allreduce(char *out, char *in, int bytes)
{
    MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double first;
    memcpy(&first, in, sizeof first);
    wrong += first != size; /* every operand is 1.0 */
}

static void do_allgather(char *out, char *in, int bytes)
{
    MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_alltoall(char *out, char *in, int bytes)
{
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_gather(char *out, char *in, int bytes)
{
    MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void do_scatter(char *out, char *in, int bytes)
{
    MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/** One-way time is half of this. */
static void do_pingpong(char *out, char *in, int bytes)
{
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

/** Many messages one way, then one word back: bandwidth and message rate. */
static void do_stream(char *out, char *in, int bytes)
{
    MPI_Request requests[STREAM];
    MPI_Status statuses[STREAM];
    if (rank > 1)
        return;
    for (int i = 0; i < STREAM; i++)
        if (rank == 0)
            MPI_Isend(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(STREAM, requests, statuses);
    if (rank == 0)
        MPI_Recv(in, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(out, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    operation_fn *run;
    double per_call; /* what one call counts as */
    enum { ALL_SIZES, ONE_SIZE, FIRST_USE } what;
} operations[] = {
    { "flag", do_flag, 2, ONE_SIZE },
    { "barrier", do_barrier, 1, ONE_SIZE },
    { "copy_once", do_copy_once, 1, ALL_SIZES },
    { "copy_twice", do_copy_twice, 1, ALL_SIZES },
    { "first_bcast", do_bcast, 1, FIRST_USE },
    { "bcast", do_bcast, 1, ALL_SIZES },
    { "reduce", do_reduce, 1, ALL_SIZES },
    { "allreduce", do_allreduce, 1, ALL_SIZES },
    { "allgather", do_allgather, 1, ALL_SIZES },
    { "alltoall", do_alltoall, 1, ALL_SIZES },
    { "gather", do_gather, 1, ALL_SIZES },
    { "scatter", do_scatter, 1, ALL_SIZES },
    { "pingpong", do_pingpong, 2, ALL_SIZES },
    { "stream", do_stream, STREAM, ALL_SIZES },
    { "flag_after", do_flag, 2, ONE_SIZE }, /* has the placement moved? */
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sample(operation_fn *run, int bytes, int calls)
{
    size_t step = warm ? 0 : rotation_step(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        place = place + 2 * step <= area_bytes ? place + step : 0;
        run(out_area + place, in_area + place, bytes);
    }
    return (MPI_Wtime() - start) / calls;
}

/** Calls that meet every place of the buffers once. */
static int turn_calls(int bytes)
{
    return warm ? 1 : (int)(area_bytes / rotation_step(bytes));
}

static void measure(const char *name, operation_fn *run, double per_call, int bytes,
                    int samples)
{
    static double mine[MAX_SAMPLES], times[MAX_SAMPLES];
    int calls = bytes <= 1024 ? 100 : bytes <= 65536 ? 20 : 4;
    if (run == do_stream)
        calls = calls / 10 + 1;
    place = 0;
    sample(run, bytes, 2 * calls > turn_calls(bytes) ? 2 * calls : turn_calls(bytes));
    for (int i = 0; i < samples; i++)
        mine[i] = sample(run, bytes, calls);
    MPI_Reduce(mine, times, samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    qsort(times, (size_t)samples, sizeof *times, ascending);
    if (rank == 0)
        printf("%s %d %.4f %.4f\n", name, bytes, times[samples / 2] / per_call * 1e6,
               times[0] / per_call * 1e6);
}

/** Of buffers that stay the same only one call could be the first. */
static void measure_first_use(const char *name, operation_fn *run)
{
    if (warm)
        return;
    place = 0;
    double mine = sample(run, FIRST_BYTES, turn_calls(FIRST_BYTES)), time = 0;
    MPI_Reduce(&mine, &time, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %d %.4f %.4f\n", name, FIRST_BYTES, time * 1e6, time * 1e6);
}

int main(int argc, char **argv)
{
    int sizes[MAX_SIZES] = { 8, 1024, 16384, 65536, 262144, MAX_BYTES };
    int count = argc > 3 ? argc - 3 : 6;
    for (int s = 0; argc > 3 && s < count; s++)
        if (s == MAX_SIZES || (sizes[s] = atoi(argv[3 + s])) < 8 || sizes[s] > MAX_BYTES) {
            fprintf(stderr, "usage: collectives [SAMPLES [cold|warm [BYTES...]]], up to %d times "
                            "8 to %d bytes\n", MAX_SIZES, MAX_BYTES);
            return 2;
        }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int samples = argc > 1 ? atoi(argv[1]) : 51;
    if (samples < 1 || samples > MAX_SAMPLES)
        samples = MAX_SAMPLES;
    warm = argc > 2 && strcmp(argv[2], "warm") == 0;
    area_bytes = ROTATE_BYTES * (size_t)size;
    out_area = aligned_alloc(4096, area_bytes);
    in_area = aligned_alloc(4096, area_bytes);
    for (size_t i = 0; i < area_bytes / 8; i++)
        ((double *)out_area)[i] = 1;
    memset(in_area, 0, area_bytes);
    share();
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        int sizes_of_it = operations[o].what == ALL_SIZES ? count : 1;
        if (operations[o].what == FIRST_USE)
            measure_first_use(operations[o].name, operations[o].run);
        else
            for (int s = 0; s < sizes_of_it; s++)
                measure(operations[o].name, operations[o].run, operations[o].per_call,
                        sizes[s], samples);
    }
    if (wrong)
        fprintf(stderr, "rank %d: %d wrong results\n", rank, wrong);
    MPI_Win_free(&window);
    MPI_Finalize();
    return wrong != 0;
}
