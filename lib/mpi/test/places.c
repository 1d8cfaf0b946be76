/*
 * Buffers wherever a program may have them: the heap, stacks, static data,
 * mappings of files, memory that cannot be written, memory that was moved, and
 * heap pages that the program mapped over.  Bcast, allreduce, gather and
 * messages from each, small and large.
 *
 *     places [hog|protected|remapped]
 *
 * hog: fill the arena (SMARTMAP_ARENA_BYTES) first; protected: all but what is
 * mapped over the heap, which no process can read where process_vm_readv is
 * forbidden.  There a program that had protected one page of its heap died.
 * remapped: no heap is protected, so that mapping over it has to be noticed by
 * itself.  It was not where UCX had rewritten the entry of mmap.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { INTS = 40000, BYTES = INTS * (int)sizeof(int), PAGE = 4096 };

/* Those that make the heap irregular come last: it stays so. */
enum place { HEAP, STACK, STATIC, MAPPING, FILE_MAP, REALLOCED, MOVED, READ_ONLY,
             HEAP_READ_ONLY, HEAP_MAPPED_OVER, HEAP_AGAIN, PLACES };

static const char *const names[] = {
    "heap", "stack", "static data", "private mapping", "file map", "realloc", "mremap",
    "read-only mapping", "read-only heap", "heap mapped over", "heap again",
};

static int rank, size, wrong;
static int *on_stack;

static void *map(int fd, int flags, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int *make(enum place place)
{
    static int in_static[INTS];
    FILE *file;
    void *p;
    switch (place) {
    case STACK: return on_stack;
    case STATIC: return in_static;
    case MAPPING: case READ_ONLY: return map(-1, MAP_PRIVATE | MAP_ANONYMOUS, BYTES);
    case FILE_MAP:
        file = tmpfile();
        return file && ftruncate(fileno(file), BYTES) == 0 ? map(fileno(file), MAP_SHARED, BYTES)
                                                           : NULL;
    case REALLOCED: return realloc(malloc(100), BYTES);
    case MOVED:
        p = map(-1, MAP_PRIVATE | MAP_ANONYMOUS, PAGE);
        return mremap(p, PAGE, BYTES, MREMAP_MAYMOVE);
    case HEAP_READ_ONLY: return aligned_alloc(PAGE, (BYTES + PAGE - 1) / PAGE * PAGE);
    case HEAP_MAPPED_OVER:
        p = aligned_alloc(PAGE, (BYTES + PAGE - 1) / PAGE * PAGE);
        return mmap(p, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0);
    default: return malloc(BYTES);
    }
}

static void protect(enum place place, int *p, int protection)
{
    if ((place == READ_ONLY || place == HEAP_READ_ONLY) && mprotect(p, BYTES, protection) != 0)
        wrong++;
}

static void judge(enum place place, const char *what, int count, const int *got, int first)
{
    int bad = 0;
    for (int i = 0; i < count; i++)
        bad += got[i] != first + i;
    if (bad && wrong++ < 5)
        fprintf(stderr, "rank %d: %s from %s, %d ints: %d wrong\n", rank, what, names[place],
                count, bad);
}

static void check(enum place place, int *p, int *heap, int *all, int count)
{
    int left = (rank + size - 1) % size;
    for (int i = 0; i < count; i++)
        p[i] = 1000 * rank + i;
    for (int root = 0; root < size; root++) {
        MPI_Bcast(rank == root ? p : heap, count, MPI_INT, root, MPI_COMM_WORLD);
        judge(place, "bcast", count, rank == root ? p : heap, 1000 * root);
    }
    protect(place, p, PROT_READ); /* a root of bcast must stand being written to */
    MPI_Allreduce(p, heap, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    judge(place, "allreduce", count, heap, 1000 * (size - 1));
    MPI_Gather(p, count, MPI_INT, all, count, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < size; r++)
        judge(place, "gather", count, all + r * count, 1000 * r);
    MPI_Sendrecv(p, count, MPI_INT, (rank + 1) % size, 1, heap, count, MPI_INT, left, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    judge(place, "message", count, heap, 1000 * left);
    protect(place, p, PROT_READ | PROT_WRITE);
    for (int root = 0; root < size; root++) { /* and into it */
        for (int i = 0; i < count; i++)
            p[i] = root + i;
        MPI_Bcast(p, count, MPI_INT, root, MPI_COMM_WORLD);
        judge(place, "bcast to and", count, p, root);
    }
}

int main(int argc, char **argv)
{
    int area[INTS], all;
    on_stack = area;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; argc > 1 && strcmp(argv[1], "hog") == 0 && i < 200; i++)
        memset(malloc(1 << 20), i, 1 << 20);
    int left_out = argc > 1 && strcmp(argv[1], "protected") == 0  ? HEAP_MAPPED_OVER
                   : argc > 1 && strcmp(argv[1], "remapped") == 0 ? HEAP_READ_ONLY
                                                                  : PLACES;
    for (int place = 0; place < PLACES; place++) {
        if (place == left_out)
            continue;
        int *p = make(place), *heap = malloc(BYTES), *gathered = malloc((size_t)size * BYTES);
        if (!p || !heap || !gathered)
            MPI_Abort(MPI_COMM_WORLD, 1);
        check(place, p, heap, gathered, 5);
        check(place, p, heap, gathered, INTS);
        free(heap);
        free(gathered);
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("places: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
