// Rank 1 has children, by fork and by vfork, all the while the other ranks count in its memory, and write and read its pages. Nothing
// that they store is lost; a child of fork has each count as it was at some moment of its fork; and what it stores itself is its own,
// but for memory that it shares with its parent, which peers see as well. Argument: how many children of each kind.
#include "windows.h"

#include <sys/uio.h>
#include <sys/wait.h>

enum { PAGES = 64, WORDS = PAGES * PAGE_BYTES / 8, RANKS = 4 };
#define TAG UINT64_C(0x666f726b00000000)

// Rank 1's.
static _Atomic uint64_t counts[RANKS];
static _Atomic uint64_t words[WORDS] __attribute__((aligned(PAGE_BYTES)));
static _Atomic uint64_t *_Atomic with_children;
static _Atomic int over;
static _Atomic pid_t pid;

static int is_tagged(uint64_t word) { return (word & ~UINT64_C(0xffffffff)) == TAG; }

// ---- The owner ---------------------------------------------------------------

struct seen {
    uint64_t counts[RANKS];
    int whole;
};

// Says what it has, having made a mess of it.
static _Noreturn void in_child(int to)
{
    struct seen seen = {.whole = 1};
    for (int rank = 0; rank < RANKS; rank++)
        seen.counts[rank] = counts[rank];
    for (int i = 0; i < WORDS; i++) {
        seen.whole &= is_tagged(words[i]);
        words[i] = 0;
    }
    for (int rank = 0; rank < RANKS; rank++)
        counts[rank] = 0;
    atomic_fetch_add(with_children, 1);
    _exit(write(to, &seen, sizeof seen) != sizeof seen);
}

// Whether what a child saw was there between two moments of its parent's.
static int is_between(const struct seen *seen, const uint64_t *before, const uint64_t *after)
{
    int all = 1;
    for (int rank = 0; rank < RANKS; rank++)
        all &= before[rank] <= seen->counts[rank] && seen->counts[rank] <= after[rank];
    return all;
}

static int one_fork(void)
{
    uint64_t before[RANKS], after[RANKS];
    struct seen seen;
    int pipes[2], status;
    need(pipe(pipes) == 0, "pipe");
    memcpy(before, counts, sizeof before);
    pid_t child = forked();
    if (child == 0)
        in_child(pipes[1]);
    memcpy(after, counts, sizeof after);
    need(read(pipes[0], &seen, sizeof seen) == sizeof seen && waitpid(child, &status, 0) == child, "what it saw");
    close(pipes[0]), close(pipes[1]);
    return status == 0 && seen.whole && is_between(&seen, before, after);
}

// It must do nothing but see and end.
static int one_vfork(void)
{
    uint64_t before = counts[0];
    int status;
    pid_t child = vfork();
    if (child == 0)
        _exit(counts[0] < before);
    need(child > 0 && waitpid(child, &status, 0) == child, "vfork");
    return status == 0;
}

// What the peers do goes on between two of them.
static void wait_for_peers(void)
{
    uint64_t before = counts[0];
    AWAIT(counts[0] != before);
}

static void have_children(int rounds)
{
    uint64_t right = 0, right_by_vfork = 0;
    for (int i = 0; i < rounds; i++) {
        wait_for_peers();
        right += one_fork();
        right_by_vfork += one_vfork();
    }
    shared->word[RANKS] = right;
    shared->word[RANKS + 1] = right_by_vfork;
    over = 1;
}

// ---- Its peers ---------------------------------------------------------------

static void use_its_memory(void)
{
    uint64_t counted = 0, wrong = 0, value;
    struct iovec here = {&value, sizeof value}, there = {.iov_len = sizeof value};
    while (!*OF(1, &over)) {
        int at = (int)(counted * 7919 % WORDS);
        _Atomic uint64_t *word = OF(1, &words[at]);
        wrong += !is_tagged(*word);
        *word = TAG | counted % 1000;
        there.iov_base = &words[(at + 1) % WORDS];
        if (counted % 64 == 0) {
            wrong += process_vm_readv(*OF(1, &pid), &here, 1, &there, 1, 0) != 8 || !is_tagged(value);
            wrong += process_vm_writev(*OF(1, &pid), &here, 1, &there, 1, 0) != 8;
        }
        atomic_fetch_add(OF(1, &counts[own_rank]), 1);
        counted++;
    }
    shared->word[own_rank] = counted;
    shared->wrong[own_rank] = wrong != 0;
}

static void look_at_the_end(int rounds)
{
    int lost = 0, wrong = 0;
    for (int rank = 0; rank < ranks; rank++) {
        lost += rank != 1 && *OF(1, &counts[rank]) != shared->word[rank];
        wrong += shared->wrong[rank] != 0;
    }
    check(shared->word[RANKS] == (uint64_t)rounds, "each child has the memory of one moment");
    check(shared->word[RANKS + 1] == (uint64_t)rounds, "a child of vfork, its parent's");
    check(lost == 0, "nothing that peers have counted is lost");
    check(wrong == 0, "and nothing of what children store is seen");
    check(*OF(1, *OF(1, &with_children)) == (uint64_t)rounds, "but what they share");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    begin_ranks();
    need(ranks <= RANKS, "so many ranks");
    if (own_rank == 1) {
        for (int i = 0; i < WORDS; i++)
            words[i] = TAG;
        pid = getpid();
        void *at = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        need(at != MAP_FAILED, "mmap");
        with_children = at;
    }
    meet(0);
    if (own_rank == 1)
        have_children(rounds);
    else
        use_its_memory();
    meet(1);
    if (own_rank == 0)
        look_at_the_end(rounds);
    meet(2);
    return end_ranks();
}
