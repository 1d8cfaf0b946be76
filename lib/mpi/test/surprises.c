/*
 * surprises: what a program does besides MPI, in a job whose ranks have each
 * other's memory mapped.  Plain Open MPI is right in each; each went wrong once.
 *
 *     surprises dump     core dumps hold memory in use, not arena and windows
 *               lock     mlockall before MPI_Init, and later
 *               end      the initial thread of a rank ends
 *               early    the same before MPI_Init
 *               yield    who waits in a small communicator yields as in a large one
 *               others   only this user's processes can open a rank's memory
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INTS = 300000, LIMIT_S = 100, NOT_ROOT = 65534 };
#define MIB ((size_t)1 << 20)

static int rank, size, wrong;
static const char *mode;

static void expect(int right, const char *what)
{
    if (!right && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static int is(const char *what) { return strcmp(mode, what) == 0; }

/** Messages and collectives, short and long, from heap and static data. */
static void traffic(void)
{
    static int fixed[INTS];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, right = 1, sum;
    int *heap = malloc(INTS * sizeof *heap);
    MPI_Comm comm; /* a new one: its ranks have to meet */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == size * (size - 1) / 2, "a sum");
    for (int i = 0; i < INTS; i++)
        fixed[i] = rank + i;
    MPI_Sendrecv(fixed, INTS, MPI_INT, to, 0, heap, INTS, MPI_INT, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(heap, INTS, MPI_INT, to, 0, fixed, INTS, MPI_INT, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < INTS; i++)
        right = right && heap[i] == from + i && fixed[i] == (rank + 2 * size - 2) % size + i;
    expect(right, "a long message");
    for (int root = 0; root < size; root++) {
        int *data = root % 2 ? fixed : heap;
        for (int i = 0; i < INTS && rank == root; i++)
            data[i] = root - i;
        MPI_Bcast(data, INTS, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < INTS; i++)
            right = right && data[i] == root - i;
    }
    expect(right, "a long broadcast");
    MPI_Comm_free(&comm);
    free(heap);
}

/**
 * Bytes of mappings beside Linux's own (from 127 TiB on) that a core dump
 * would hold, by proc(5)'s smaps; `address` must be in one.
 */
static size_t dumped_bytes(const char *address)
{
    char line[512];
    unsigned long start = 0, end = 0, from, to, upper = 127UL << 40;
    size_t bytes = 0;
    int found = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            start = from;
            end = to;
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || end > upper || strstr(line, " dd"))
            continue;
        bytes += end - start;
        found |= (unsigned long)address >= start && (unsigned long)address < end;
    }
    if (smaps)
        fclose(smaps);
    expect(found, "memory in use is not in a core dump");
    return bytes;
}

static void dump(void)
{
    char *block = malloc(100 * MIB);
    traffic();
    memset(block, 1, 100 * MIB);
    expect(dumped_bytes(block + 50 * MIB) < 4096 * MIB, "a core dump holds arena or windows");
    free(block);
}

static void lock_memory(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) /* the limit of users is far less */
        expect(errno == EPERM || errno == ENOMEM || errno == EAGAIN, "mlockall");
}

static void lock(void)
{
    struct rusage usage;
    traffic();
    munlockall();
    lock_memory();
    traffic();
    getrusage(RUSAGE_SELF, &usage);
    expect(usage.ru_maxrss < 2048 * 1024, "mlockall took memory that is not used");
}

/* A thread that outlives the initial one. */

static sem_t go_on;

static int initial_thread_has_ended(void)
{
    char line[512] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    char *state = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    return state && state[2] == 'Z';
}

static void see_initial_thread_end(void)
{
    time_t end = time(NULL) + LIMIT_S;
    sem_post(&go_on);
    while (!initial_thread_has_ended() && time(NULL) < end)
        sched_yield();
    expect(initial_thread_has_ended(), "the initial thread lives");
}

/** The others wait for rank 1 so long that they check twice whether it lives. */
static void wait_for_survivor(void)
{
    enum { POLLS = 9000 };
    MPI_Request request;
    int word = 0, done = 0;
    if (rank == 1) {
        for (int r = 1; r < size; r++)
            MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; r++)
            if (r != rank)
                MPI_Send(&word, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    for (int i = 0; i < POLLS && !done; i++)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    expect(!done, "a message that was not sent");
    MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void *outlive(void *nothing)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    int provided, all, early = is("early") && number && strcmp(number, "1") == 0;
    (void)nothing;
    if (early)
        see_initial_thread_end();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    traffic();
    if (is("end") && rank == 1)
        see_initial_thread_end();
    MPI_Barrier(MPI_COMM_WORLD);
    wait_for_survivor();
    traffic();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("surprises: %s: %d wrong\n", mode, all);
    MPI_Finalize();
    exit(all != 0);
}

static int end(void)
{
    pthread_t thread;
    sem_init(&go_on, 0, 0);
    pthread_create(&thread, NULL, outlive, NULL);
    while (sem_wait(&go_on) != 0)
        ;
    pthread_exit(NULL);
}

/* How soon a rank yields that waits for another. */

static int trial;
static _Atomic int *yielded; /* shared by all ranks: the last trial in which rank 0 has */
static double first_yield;

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** In place of libc's: the libraries call it here. */
int sched_yield(void)
{
    if (yielded && rank == 0 && atomic_load(yielded) < trial) {
        first_yield = processor_seconds();
        atomic_store(yielded, trial);
    }
    return (int)syscall(SYS_sched_yield);
}

/** Rank 0's CPU time in MPI_Barrier until it yields, at best; the others come later. */
static double seconds_to_yield(MPI_Comm comm)
{
    enum { TIMES = 200 };
    double least = 1;
    for (int i = 0; i < TIMES; i++) {
        MPI_Barrier(comm);
        trial++;
        double start = processor_seconds();
        while (rank != 0 && atomic_load(yielded) < trial)
            syscall(SYS_sched_yield);
        MPI_Barrier(comm);
        double spent = first_yield - start;
        least = spent < least ? spent : least;
    }
    return least;
}

static void yield(void)
{
    enum { TIMES_AS_LONG = 8 }; /* it was 26 */
    MPI_Win window;
    MPI_Aint bytes;
    int unit;
    MPI_Comm pair;
    double in_pair = 0, in_all;
    _Atomic int *shared;
    MPI_Win_allocate_shared(rank ? 0 : sizeof *shared, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                            &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    atomic_store(shared, 0);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
    MPI_Barrier(MPI_COMM_WORLD);
    yielded = shared;
    if (rank < 2)
        in_pair = seconds_to_yield(pair);
    MPI_Bcast(&trial, 1, MPI_INT, 0, MPI_COMM_WORLD);
    in_all = seconds_to_yield(MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "until rank 0 yields: %.1f us in a pair, %.1f among all\n", 1e6 * in_pair,
                1e6 * in_all);
    expect(rank != 0 || in_pair < TIMES_AS_LONG * in_all, "who waits in a pair does not yield");
    yielded = NULL;
    if (rank < 2)
        MPI_Comm_free(&pair);
    MPI_Win_free(&window);
}

/** Two CPUs for all ranks, who are more. */
static void crowd(void)
{
    cpu_set_t all, two;
    CPU_ZERO(&two);
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &two);
    sched_setaffinity(0, sizeof two, &two);
}

/** Another user's process may not look into /proc/PID/fd, where the arena is. */
static void others(void)
{
    char path[64];
    int status = -1;
    traffic();
    if (geteuid() != 0) /* who cannot become another user; nor can a namespace's root */
        return;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)getpid());
    DIR *own = opendir(path);
    expect(own != NULL, "a rank cannot look at its own descriptors");
    closedir(own);
    pid_t child = fork();
    if (child == 0)
        _exit(setgid(NOT_ROOT) == 0 && setuid(NOT_ROOT) == 0 && opendir(path) != NULL);
    expect(waitpid(child, &status, 0) == child && status == 0,
           "another user can open a rank's memory");
}

int main(int argc, char **argv)
{
    int all;
    mode = argc > 1 ? argv[1] : "";
    if (is("end") || is("early"))
        return end();
    if (is("lock"))
        lock_memory();
    if (is("yield"))
        crowd();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (is("dump"))
        dump();
    else if (is("lock"))
        lock();
    else if (is("yield"))
        yield();
    else if (is("others"))
        others();
    else
        expect(0, "which surprise?");
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("surprises: %s: %d wrong\n", mode, all);
    MPI_Finalize();
    return all != 0;
}
