/*
 * failing: memory runs out in the component of one rank, or two.
 *
 * In the middle of a reduction of which each rank folds a piece, the others took
 * what that rank had not written for its piece, and called it right, or waited
 * for it for ever; and what was allocated beside it stayed.
 *
 * Each allocation of the component fails once, under each of the others' ways
 * to its data.  Wanted: all ranks get an error, or the right result.
 *
 * When a communicator is freed, its control block was freed at once, though the
 * others were still to read it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

enum { COUNT = 100000, MOST = 10, RANKS = 3 };
enum way { HEAP, IN_PLACE, STATIC, WAYS };

static int rank, failures;
static int armed;        /* count what the component allocates */
static unsigned refused; /* a bit for each allocation that fails */
static int made, failed, kept;

static int is_called_by_component(const void *address)
{
    return is_called_by(address, "mca_coll_smartmap") || is_called_by(address, "libsmartmap_mpich");
}

/** In place of libc's: the libraries call them here. */
void *malloc(size_t bytes)
{
    if (armed && is_called_by_component(__builtin_return_address(0))) {
        if (refused >> made++ & 1) {
            failed++;
            return NULL;
        }
        kept++;
    }
    return reallocarray(NULL, 1, bytes); /* of realloc gcc would make this malloc */
}

/** Whoever reads it afterwards finds nothing that is right. */
void free(void *memory)
{
    static void (*next)(void *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "free");
    if (armed && memory && is_called_by_component(__builtin_return_address(0))) {
        memset(memory, 0xff, malloc_usable_size(memory));
        kept--;
    }
    next(memory);
}

static void arm(unsigned mine)
{
    refused = mine, made = failed = kept = 0;
    armed = 1;
}

static void expect(int right, const char *what, enum way way, int root, unsigned mine)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "failing: rank %d: %s: way %d, root %d, refused %x\n", rank, what, way, root, mine);
}

/** An allreduce (root < 0) or a reduce, of which `mine` allocations fail here. */
static int run(enum way way, int root, unsigned mine)
{
    static double static_out[COUNT], static_in[COUNT];
    static double *heap_out, *heap_in;
    if (!heap_out) {
        heap_out = calloc(COUNT, sizeof *heap_out);
        heap_in = calloc(COUNT, sizeof *heap_in);
    }
    double *in = way == STATIC ? static_in : heap_in, *out = way == STATIC ? static_out : heap_out;
    int in_place = way == IN_PLACE && (root < 0 || root == rank), took = root < 0 || root == rank, any;
    for (int i = 0; i < COUNT; i++) {
        out[i] = rank + i;
        in[i] = in_place ? out[i] : -1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    arm(mine);
    int error = root < 0 ? MPI_Allreduce(in_place ? MPI_IN_PLACE : out, in, COUNT, MPI_DOUBLE, MPI_SUM,
                                         MPI_COMM_WORLD)
                         : MPI_Reduce(in_place ? MPI_IN_PLACE : out, in, COUNT, MPI_DOUBLE, MPI_SUM,
                                      root, MPI_COMM_WORLD);
    armed = 0;
    int wrong = error != MPI_SUCCESS, all;
    expect(kept == 0, "something stays allocated", way, root, mine);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(all == 0 || any > 0, "an error without a reason", way, root, mine);
    /* The root folds alone what it has where others cannot write. */
    int alone = way == STATIC && root >= 0;
    expect(all == 0 || all == RANKS || alone, "an error on some ranks only", way, root, mine);
    for (int i = 0; i < COUNT && took && !wrong; i++)
        if (in[i] != 3 + 3 * i) {
            expect(0, "a wrong result is called right", way, root, mine);
            break;
        }
    return all > 0;
}

/** Rank 0 has freed a communicator before the others take what it gave there. */
static void free_early(void)
{
    MPI_Comm comm;
    int word = rank == 0 ? 4711 : -1, error = MPI_SUCCESS;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    if (rank == 0) {
        error = MPI_Bcast(&word, 1, MPI_INT, 0, comm);
        arm(~0u);
        MPI_Comm_free(&comm);
        armed = 0;
        expect(failed > 0, "no memory was needed to free a communicator", HEAP, 0, ~0u);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        error = MPI_Bcast(&word, 1, MPI_INT, 0, comm);
        MPI_Comm_free(&comm);
    }
    expect(error == MPI_SUCCESS && word == 4711, "data of a rank that has freed its side", HEAP, 0, 0);
}

int main(int argc, char **argv)
{
    int size, all, seen = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int way = 0; way < WAYS && size == RANKS; way++)
        for (int root = -1; root < RANKS; root++)
            for (int i = 0; i <= MOST; i++) {
                unsigned one = i < MOST ? 1u << i : 0;
                seen += run(way, root, rank == 1 ? one : 0);
                seen += run(way, root, rank == 1 ? one : 3); /* the others' data is far */
            }
    free_early();
    expect(seen > 0, "nothing has failed", 0, 0, 0);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("failing: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
