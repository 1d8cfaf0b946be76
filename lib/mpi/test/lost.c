/*
 * lost: eight ranks, of which six die in the middle of transfers, each at a
 * moment that is fixed outside of MPI.  Rank 0 has business with each of them;
 * all of it must end, with an error, or with what was sent before.  Rank 1
 * lives, and is in all communicators.
 *
 * Needs a launcher that lets survivors go on (Open MPI: --enable-recovery);
 * these end without MPI_Finalize, which would wait for the dead.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { JUDGE, BYSTANDER, IDLE_VICTIM, GIVER, TAKER, FULL, SPOKEN, COLLECTIVE, RANKS };
enum { VICTIM = 2 }; /* its rank in each communicator of three */
enum { LONG_BYTES = 1 << 20, MEDIUM_BYTES = 10000, PAIRS = 1 << 19, LIMIT_S = 100 };

/** What a rank notifies the others of, outside of MPI. */
struct board {
    _Atomic int pid, step, failures;
};

static int rank, failures;
static struct board *board;
static MPI_Comm comm;    /* judge, bystander, and the victim whose turn it is */
static MPI_Datatype gaps; /* 4 MiB in pieces: more than any ring takes */
static char *data;

static void expect(int right, const char *what)
{
    if (!right && failures++ < 10)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void give_up(const char *what)
{
    fprintf(stderr, "lost: rank %d: %s\n", rank, what);
    _exit(1);
}

static void notify(int step) { atomic_store(&board[rank].step, step); }

static void wait_for(int of, int step)
{
    time_t end = time(NULL) + LIMIT_S;
    while (atomic_load(&board[of].step) < step) {
        sched_yield();
        if (time(NULL) > end)
            give_up("another rank does not get on");
    }
}

/** Threads of a process that have not ended, by proc(5). */
static int threads_of(int pid)
{
    char path[64];
    int threads = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks && (e = readdir(tasks)) != NULL;)
        threads += e->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return threads;
}

/** Is all of the process dead, even if its parent has not seen it yet? */
static int is_dead(int pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    char *state = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return !state || ((state[2] == 'Z' || state[2] == 'X') && threads_of(pid) <= 1);
}

static void see_it_die(int victim)
{
    time_t end = time(NULL) + LIMIT_S;
    while (!is_dead(atomic_load(&board[victim].pid))) {
        sched_yield();
        if (time(NULL) > end)
            give_up("a victim does not die");
    }
}

static void die(void)
{
    raise(SIGKILL);
    give_up("lives on");
}

/** The judge does not see the end of what it waits for while another talks to it. */
static void talk_until(MPI_Request *requests, int count)
{
    int left = count, in, over = 0;
    time_t end = time(NULL) + LIMIT_S;
    while (!over) {
        for (int i = 0; i < count; i++) {
            MPI_Status status;
            int done = 0, error;
            if (requests[i] == MPI_REQUEST_NULL)
                continue;
            error = MPI_Test(&requests[i], &done, &status);
            left -= done;
            expect(!done || error != MPI_SUCCESS, "a transfer with a dead rank succeeded");
            if (done && requests[i] != MPI_REQUEST_NULL)
                MPI_Request_free(&requests[i]); /* a persistent one */
        }
        if (time(NULL) > end) {
            expect(0, "what waits for a dead rank waits for ever while others talk");
            left = 0;
        }
        over = left == 0;
        MPI_Sendrecv(&over, 1, MPI_INT, BYSTANDER, 1, &in, 1, MPI_INT, BYSTANDER, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void talk(void)
{
    for (int out = 0, over = 0; !over;)
        MPI_Sendrecv(&out, 1, MPI_INT, JUDGE, 1, &over, 1, MPI_INT, JUDGE, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

/** Whatever begins when the rank is known to be dead fails at once. */
static void begin_too_late(void)
{
    int word = 0, there = 0;
    MPI_Message message;
    expect(MPI_Send(&word, 1, MPI_INT, VICTIM, 2, comm) != MPI_SUCCESS, "sent to a dead rank");
    expect(MPI_Recv(&word, 1, MPI_INT, VICTIM, 2, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "received from a dead rank");
    expect(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE) !=
           MPI_SUCCESS, "received from any rank, of which one is dead");
    expect(MPI_Probe(VICTIM, 2, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS, "a probe");
    expect(MPI_Mprobe(VICTIM, 2, comm, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "a matched probe");
    expect(MPI_Iprobe(VICTIM, 2, comm, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "a loop of MPI_Iprobe would not end");
    expect(MPI_Improbe(VICTIM, 2, comm, &there, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "a loop of MPI_Improbe would not end");
}

/** Nothing that a rank could have to do with another gets done. */
static void judge_idle_victim(void)
{
    enum { REQUESTS = 6 };
    static int words[REQUESTS];
    int bytes = LONG_BYTES + MPI_BSEND_OVERHEAD;
    MPI_Request r[REQUESTS];
    MPI_Buffer_attach(malloc((size_t)bytes), bytes);
    MPI_Irecv(&words[0], 1, MPI_INT, VICTIM, 0, comm, &r[0]);
    MPI_Irecv(&words[1], 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, &r[1]);
    MPI_Recv_init(&words[2], 1, MPI_INT, VICTIM, MPI_ANY_TAG, comm, &r[2]);
    MPI_Start(&r[2]);
    MPI_Issend(&words[3], 1, MPI_INT, VICTIM, 0, comm, &r[3]);
    MPI_Isend(data, LONG_BYTES, MPI_BYTE, VICTIM, 0, comm, &r[4]);
    MPI_Isend(data, 1, gaps, VICTIM, 0, comm, &r[5]);
    MPI_Bsend(data, LONG_BYTES, MPI_BYTE, VICTIM, 0, comm);
    notify(IDLE_VICTIM);
    see_it_die(IDLE_VICTIM);
    talk_until(r, REQUESTS);
    void *room;
    MPI_Buffer_detach(&room, &bytes); /* waits for what is in the buffer */
    free(room);
    begin_too_late();
}

static void idle_victim(void)
{
    wait_for(JUDGE, IDLE_VICTIM);
    die();
}

/** The rest of a message in pieces does not come. */
static void judge_giver(void)
{
    int word = 0;
    MPI_Request request;
    MPI_Probe(VICTIM, 0, comm, MPI_STATUS_IGNORE);
    MPI_Irecv(data, 1, gaps, VICTIM, 0, comm, &request); /* comes in pieces */
    MPI_Send(&word, 1, MPI_INT, VICTIM, 0, comm);
    see_it_die(GIVER);
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS, "half of a message is none");
}

static void giver(void)
{
    int word;
    MPI_Request request;
    MPI_Isend(data, 1, gaps, JUDGE, 0, comm, &request);
    MPI_Recv(&word, 1, MPI_INT, JUDGE, 0, comm, MPI_STATUS_IGNORE); /* and pieces are sent */
    die();
}

/** The rest of a message in pieces finds no reader. */
static void judge_taker(void)
{
    int word;
    MPI_Request request;
    MPI_Isend(data, 1, gaps, VICTIM, 0, comm, &request);
    MPI_Recv(&word, 1, MPI_INT, VICTIM, 0, comm, MPI_STATUS_IGNORE);
    see_it_die(TAKER);
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS, "no receive has taken it");
}

static void taker(void)
{
    int word = 0;
    MPI_Request request;
    MPI_Probe(JUDGE, 0, comm, MPI_STATUS_IGNORE);
    MPI_Irecv(data, 1, gaps, JUDGE, 0, comm, &request);
    MPI_Send(&word, 1, MPI_INT, JUDGE, 0, comm);
    die();
}

/** Sends that wait for room in a channel. */
static void judge_full(void)
{
    enum { SENDS = 2000 };
    static MPI_Request requests[SENDS];
    int failed = 0;
    for (int i = 0; i < SENDS; i++)
        MPI_Isend(data, 100, MPI_BYTE, VICTIM, 0, comm, &requests[i]);
    notify(FULL);
    see_it_die(FULL);
    for (int i = 0; i < SENDS; i++)
        failed += MPI_Wait(&requests[i], MPI_STATUS_IGNORE) != MPI_SUCCESS;
    expect(failed > 0 && failed < SENDS, "sends that found no room must fail, only they");
}

static void full(void)
{
    wait_for(JUDGE, FULL);
    die();
}

/** What a rank sent before comes, unless only its address was sent. */
static void judge_spoken(void)
{
    int word = 0, class = 0, right = 1;
    MPI_Message message;
    MPI_Mprobe(VICTIM, 3, comm, &message, MPI_STATUS_IGNORE);
    notify(SPOKEN);
    see_it_die(SPOKEN);
    expect(MPI_Recv(&word, 1, MPI_INT, VICTIM, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           word == 4711, "a short message of a rank that died later");
    memset(data, 0, MEDIUM_BYTES);
    expect(MPI_Recv(data, MEDIUM_BYTES, MPI_BYTE, VICTIM, 1, comm, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS, "a medium message of a rank that died later");
    for (int i = 0; i < MEDIUM_BYTES; i++)
        right = right && data[i] == (char)i;
    expect(right, "its data");
    int error = MPI_Recv(data, LONG_BYTES, MPI_BYTE, VICTIM, 2, comm, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    expect(class == MPI_ERR_OTHER, "a long one lies in the memory of the dead");
    expect(MPI_Mrecv(data, LONG_BYTES, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "so does one that a probe has found");
    expect(MPI_Recv(&word, 1, MPI_INT, VICTIM, 0, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS,
           "more than was sent");
}

static void spoken(void)
{
    int word = 4711;
    MPI_Request requests[2];
    for (int i = 0; i < MEDIUM_BYTES; i++)
        data[i] = (char)i;
    MPI_Send(&word, 1, MPI_INT, JUDGE, 0, comm);
    MPI_Send(data, MEDIUM_BYTES, MPI_BYTE, JUDGE, 1, comm);
    MPI_Isend(data, LONG_BYTES, MPI_BYTE, JUDGE, 2, comm, &requests[0]);
    MPI_Isend(data, LONG_BYTES, MPI_BYTE, JUDGE, 3, comm, &requests[1]);
    wait_for(JUDGE, SPOKEN);
    die();
}

/** Both survivors wait in a collective. */
static void wait_in_collective(void)
{
    int one = 1, sum;
    expect(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS,
           "a collective without one of its ranks");
}

static void judge_collective(void)
{
    notify(COLLECTIVE);
    wait_in_collective();
}

static void stay_away(void)
{
    wait_for(JUDGE, COLLECTIVE);
    die();
}

static const struct {
    void (*victim)(void), (*judge)(void), (*bystander)(void);
} acts[RANKS] = {
    [IDLE_VICTIM] = { idle_victim, judge_idle_victim, talk },
    [GIVER] = { giver, judge_giver, NULL },
    [TAKER] = { taker, judge_taker, NULL },
    [FULL] = { full, judge_full, NULL },
    [SPOKEN] = { spoken, judge_spoken, NULL },
    [COLLECTIVE] = { stay_away, judge_collective, wait_in_collective },
};

static void play(int victim)
{
    if (rank == victim)
        acts[victim].victim();
    else if (rank == JUDGE)
        acts[victim].judge();
    else if (rank == BYSTANDER && acts[victim].bystander)
        acts[victim].bystander();
}

/** Memory that all ranks share, and in it who they are. */
static void make_board(void)
{
    MPI_Win window;
    MPI_Aint bytes;
    int unit;
    MPI_Win_allocate_shared(rank ? 0 : sizeof *board * RANKS, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &board, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &board);
    atomic_store(&board[rank].step, 0);
    atomic_store(&board[rank].failures, 0);
    atomic_store(&board[rank].pid, getpid());
}

int main(int argc, char **argv)
{
    int size;
    MPI_Comm comms[RANKS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS)
        give_up("needs 8 ranks");
    make_board();
    MPI_Type_vector(PAIRS, 2, 3, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    data = calloc(3 * PAIRS, sizeof(int));
    for (int victim = VICTIM; victim < RANKS; victim++) {
        int member = rank <= BYSTANDER || rank == victim;
        MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, rank, &comms[victim]);
        if (member) {
            MPI_Comm_set_errhandler(comms[victim], MPI_ERRORS_RETURN);
            MPI_Barrier(comms[victim]); /* its collectives are set up */
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int victim = VICTIM; victim < RANKS; victim++) {
        comm = comms[victim];
        play(victim);
    }
    atomic_store(&board[rank].failures, failures);
    notify(RANKS);
    wait_for(1 - rank, RANKS);
    if (rank == JUDGE) {
        printf("lost: %d wrong\n", failures + atomic_load(&board[BYSTANDER].failures));
        fflush(stdout);
    }
    notify(RANKS + 1);
    wait_for(1 - rank, RANKS + 1);
    _exit(failures != 0);
}
