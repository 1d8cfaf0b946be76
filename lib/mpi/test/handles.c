/*
 * handles: what a library must get right that is called in place of the MPI's
 * functions (coll/mpich): handles that are used again, calls with int and with
 * MPI_Count in one collective, wrong arguments, sessions, threads with
 * communicators of their own; and progress of what else is under way.
 *
 *     handles [ROUNDS]    of threads and of handles (200)
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, INTS = 1000 };

static _Atomic int failures;
static int rank, size, rounds = 200;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "handles: rank %d: %s\n", rank, what);
}

static int sum_of_ranks(MPI_Comm comm)
{
    int sum = -1;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

/** Communicators of other members under handles that were freed. */
static void communicators(void)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Comm half, all;
        int sum = 0;
        MPI_Comm_split(MPI_COMM_WORLD, (rank + i) % 2, 0, &half);
        MPI_Comm_dup(MPI_COMM_WORLD, &all);
        for (int r = 0; r < size; r++)
            sum += (r + i) % 2 == (rank + i) % 2 ? r : 0;
        expect(sum_of_ranks(half) == sum, "half of the ranks");
        expect(sum_of_ranks(all) == size * (size - 1) / 2, "all ranks");
        MPI_Comm_free(i % 3 ? &half : &all);
        MPI_Comm_free(i % 3 ? &all : &half);
    }
}

/** Datatypes of another layout under handles that were freed. */
static void datatypes(void)
{
    static int from[INTS], to[INTS];
    for (int i = 0; i < rounds; i++) {
        MPI_Datatype type, pair;
        int stride = 1 + i % 4, count = 1 + i % 7, blocks[2] = { 1, 1 }, swapped[2] = { 1, 0 };
        MPI_Type_vector(count, 1, stride, MPI_INT, &type);
        MPI_Type_commit(&type);
        for (int k = 0; k < INTS; k++)
            from[k] = k + i + 1, to[k] = rank == 0 ? from[k] : -1;
        MPI_Bcast(to, 1, type, 0, MPI_COMM_WORLD);
        for (int k = 0; k < INTS && rank != 0; k++)
            expect(to[k] == (k % stride == 0 && k < count * stride ? from[k] : -1), "a vector");
        MPI_Type_free(&type);
        /* As large as it is long, and yet not in one piece: elements in another order. */
        MPI_Type_indexed(2, blocks, swapped, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        to[0] = rank == 0 ? 1 : 0, to[1] = rank == 0 ? 2 : 0;
        MPI_Bcast(to, rank == 0 ? 1 : 2, rank == 0 ? pair : MPI_INT, 0, MPI_COMM_WORLD);
        expect(rank == 0 || (to[0] == 2 && to[1] == 1), "a swapped pair");
        MPI_Type_free(&pair);
    }
}

#if MPI_VERSION >= 4
/** The root passes MPI_Count, the others int; and the other way round. */
static void counts_of_two_sizes(void)
{
    int *all = malloc((size_t)size * INTS * sizeof *all), *own = malloc(INTS * sizeof *own);
    MPI_Count *counts = malloc((size_t)size * sizeof *counts);
    MPI_Aint *displacements = malloc((size_t)size * sizeof *displacements);
    int *few = malloc(2 * (size_t)size * sizeof *few), *at = few + size;
    for (int r = 0; r < size; r++) {
        counts[r] = few[r] = INTS - r;
        displacements[r] = at[r] = (size - 1 - r) * INTS;
    }
    for (int root = 0; root < size; root++) {
        for (int k = 0; k < INTS; k++)
            own[k] = rank * INTS + k;
        if (rank == root)
            MPI_Gatherv_c(own, INTS - rank, MPI_INT, all, counts, displacements, MPI_INT, root,
                          MPI_COMM_WORLD);
        else
            MPI_Gatherv(own, INTS - rank, MPI_INT, NULL, NULL, NULL, MPI_INT, root,
                        MPI_COMM_WORLD);
        for (int r = 0; r < size && rank == root; r++)
            for (int k = 0; k < INTS - r; k++)
                expect(all[displacements[r] + k] == r * INTS + k, "gatherv");
        if (rank == root)
            MPI_Scatterv(all, few, at, MPI_INT, own, INTS - rank, MPI_INT, root, MPI_COMM_WORLD);
        else
            MPI_Scatterv_c(NULL, NULL, NULL, MPI_INT, own, INTS - rank, MPI_INT, root,
                           MPI_COMM_WORLD);
        expect(own[0] == rank * INTS, "scatterv");
        int word = rank == root ? 77 : 0, sum = 0;
        if (rank % 2)
            MPI_Bcast_c(&word, 1, MPI_INT, root, MPI_COMM_WORLD);
        else
            MPI_Bcast(&word, 1, MPI_INT, root, MPI_COMM_WORLD);
        if (rank % 2)
            MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Allreduce_c(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        expect(word == 77 && sum == 77 * size, "bcast and allreduce");
    }
    free(all);
    free(own);
    free(counts);
    free(displacements);
    free(few);
}

static void session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "handles", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    expect(sum_of_ranks(comm) == size * (size - 1) / 2, "a session's communicator");
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}
#else
static void counts_of_two_sizes(void) {}
static void session(void) {}
#endif

/** Arguments that mean nothing on some ranks may be anything there. */
static void without_meaning(void)
{
    int word = rank, sum = 0;
    int *all = rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
    /* Plain MPICH refuses it, although the standard allows it (MPI 6.11.2). */
    MPI_Exscan(&word, rank == 0 ? NULL : &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == rank * (rank - 1) / 2, "exscan without a buffer on rank 0");
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &word, rank == 0 ? &word : NULL, 1, MPI_INT, MPI_SUM, 0,
               MPI_COMM_WORLD);
    expect(rank != 0 || word == size * (size - 1) / 2, "reduce without a buffer but at the root");
    MPI_Gather(&rank, 1, MPI_INT, all, rank == 0 ? 1 : -1, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0,
               MPI_COMM_WORLD);
    expect(rank != 0 || all[size - 1] == size - 1, "gather");
    MPI_Scatter(all, rank == 0 ? 1 : -1, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, &word, 1, MPI_INT, 0,
                MPI_COMM_WORLD);
    expect(word == rank, "scatter");
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : &word, rank == 0 ? -1 : 1, rank == 0 ? MPI_DATATYPE_NULL : MPI_INT, all,
               1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(rank != 0 || all[size - 1] == size - 1, "gather in place");
    MPI_Scatter(all, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &word, rank == 0 ? -1 : 1,
                rank == 0 ? MPI_DATATYPE_NULL : MPI_INT, 0, MPI_COMM_WORLD);
    expect(word == rank, "scatter in place");
    free(all);
    int *words = malloc((size_t)size * sizeof *words);
    words[rank] = rank;
    MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, words, 1, MPI_INT, MPI_COMM_WORLD);
    expect(words[0] == 0 && words[size - 1] == size - 1, "allgather in place");
    free(words);
}

/** Rank 0 waits in a collective for those who need its library for their locks. */
static void one_sided(void)
{
    int *words, one = 1, old;
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    *words = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank != 0 && i < 10; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&old, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    expect(old == 10 * (size - 1), "additions at rank 0");
    MPI_Win_free(&win);
}

static int class_of(int error)
{
    int class;
    MPI_Error_class(error, &class);
    return class;
}

/** Every rank makes the same mistake: each gets the error, and nothing is out of step afterwards. */
static void mistakes(void)
{
    int word = 0, words[2];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) { /* before the first collective of the communicator, and after */
        expect(class_of(MPI_Bcast(&word, 1, MPI_INT, size, comm)) == MPI_ERR_ROOT, "root");
        expect(class_of(MPI_Bcast(&word, 1, MPI_INT, -1, comm)) == MPI_ERR_ROOT, "negative root");
        expect(class_of(MPI_Bcast(&word, -1, MPI_INT, 0, comm)) == MPI_ERR_COUNT, "count");
        expect(class_of(MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, comm)) == MPI_ERR_TYPE, "type");
        expect(class_of(MPI_Allreduce(&word, words, 1, MPI_INT, MPI_OP_NULL, comm)) == MPI_ERR_OP,
               "operation");
        expect(MPI_Allreduce(&word, words, 1, MPI_DOUBLE, MPI_BAND, comm) != MPI_SUCCESS,
               "an operation that a type has not");
        expect(class_of(MPI_Bcast(NULL, 1, MPI_INT, 0, comm)) == MPI_ERR_BUFFER, "no buffer");
        expect(MPI_Allreduce(&word, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS,
               "a result in place");
        expect(class_of(MPI_Barrier(MPI_COMM_NULL)) == MPI_ERR_COMM, "no communicator");
        expect(sum_of_ranks(comm) == size * (size - 1) / 2, "after mistakes");
    }
    MPI_Comm_free(&comm);
}

/** Each thread has a communicator; all make and free others and datatypes meanwhile. */
static void *thread(void *argument)
{
    MPI_Comm own = *(MPI_Comm *)argument;
    for (int i = 0; i < rounds; i++) {
        MPI_Comm more;
        MPI_Datatype type;
        int words[8] = { rank == i % size ? i : -1 };
        MPI_Type_vector(2, 1, 2 + i % 3, MPI_INT, &type);
        MPI_Type_commit(&type);
        words[2 + i % 3] = words[0];
        MPI_Bcast(words, 1, type, i % size, own);
        expect(words[0] == i && words[2 + i % 3] == i, "a thread's bcast");
        MPI_Comm_dup(own, &more);
        expect(sum_of_ranks(more) == size * (size - 1) / 2, "a thread's allreduce");
        MPI_Comm_free(&more);
        MPI_Type_free(&type);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t id[THREADS];
    MPI_Comm comm[THREADS];
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&id[t], NULL, thread, &comm[t]);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(id[t], NULL);
        MPI_Comm_free(&comm[t]);
    }
}

int main(int argc, char **argv)
{
    int provided, all, own;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        rounds = atoi(argv[1]);
    communicators();
    datatypes();
    counts_of_two_sizes();
    session();
    without_meaning();
    one_sided();
    mistakes();
    if (provided == MPI_THREAD_MULTIPLE)
        threads();
    own = failures;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("handles: %d ranks: %d wrong\n", size, all);
    MPI_Finalize();
    return all != 0;
}
