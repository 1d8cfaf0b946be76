/*
 * Time collectives and messages in the manner of IMB and OSU: buffers rotate
 * from call to call ("cold": they left the nearer caches) or stay the same
 * ("warm"), results are validated, and each line is one cell of the table.
 *
 *     collectives [SAMPLES [warm]]     prints  name bytes median least
 *
 * A sample is a batch of calls, in microseconds per call as the slower rank
 * saw it.  Batches are short, so that on a busy machine some go undisturbed:
 * `least` is the fastest of them.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20, ROTATE_BYTES = 8 << 20, MAX_SAMPLES = 1001, STREAM = 32 };

static char *out_area, *in_area;
static size_t turn;
static int rank, size, wrong, warm;

/** The next place in a rotating buffer; page-aligned. */
static void rotate(size_t bytes, char **out, char **in)
{
    size_t step = (bytes * (size_t)size + 4095) / 4096 * 4096;
    size_t places = ROTATE_BYTES * (size_t)size / step;
    turn = warm ? 0 : (turn + 1) % places;
    *out = out_area + turn * step;
    *in = in_area + turn * step;
}

typedef void operation_fn(char *out, char *in, int bytes);

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
} operations[] = {
    { "barrier", do_barrier, 1 },     { "bcast", do_bcast, 1 },
    { "reduce", do_reduce, 1 },       { "allreduce", do_allreduce, 1 },
    { "allgather", do_allgather, 1 }, { "alltoall", do_alltoall, 1 },
    { "gather", do_gather, 1 },       { "scatter", do_scatter, 1 },
    { "pingpong", do_pingpong, 2 },   { "stream", do_stream, STREAM },
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sample(operation_fn *run, int bytes, int calls)
{
    char *out, *in;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        rotate((size_t)bytes, &out, &in);
        run(out, in, bytes);
    }
    return (MPI_Wtime() - start) / calls;
}

static void measure(const char *name, operation_fn *run, double per_call, int bytes,
                    int samples)
{
    static double mine[MAX_SAMPLES], times[MAX_SAMPLES];
    int calls = bytes <= 1024 ? 100 : bytes <= 65536 ? 20 : 4;
    if (run == do_stream)
        calls = calls / 10 + 1;
    sample(run, bytes, 2 * calls);
    for (int i = 0; i < samples; i++)
        mine[i] = sample(run, bytes, calls);
    MPI_Reduce(mine, times, samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    qsort(times, (size_t)samples, sizeof *times, ascending);
    if (rank == 0)
        printf("%s %d %.4f %.4f\n", name, bytes, times[samples / 2] / per_call * 1e6,
               times[0] / per_call * 1e6);
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 8, 1024, 16384, 65536, 262144, MAX_BYTES };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int samples = argc > 1 ? atoi(argv[1]) : 51;
    if (samples < 1 || samples > MAX_SAMPLES)
        samples = MAX_SAMPLES;
    warm = argc > 2 && strcmp(argv[2], "warm") == 0;
    size_t area = ROTATE_BYTES * (size_t)size;
    out_area = aligned_alloc(4096, area);
    in_area = aligned_alloc(4096, area);
    for (size_t i = 0; i < area / 8; i++)
        ((double *)out_area)[i] = 1;
    memset(in_area, 0, area);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
        for (size_t s = 0; s < (o == 0 ? 1 : sizeof sizes / sizeof *sizes); s++)
            measure(operations[o].name, operations[o].run, operations[o].per_call,
                    sizes[s], samples);
    if (wrong)
        fprintf(stderr, "rank %d: %d wrong results\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
