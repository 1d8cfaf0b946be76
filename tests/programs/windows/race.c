// Ranks that map, unmap, move, protect, become other programs and end while all others read and write their memory, against a
// model.
//
//   race MILLISECONDS SEED [PROGRAM]
//
// Each rank has slots of memory (slots.h) and says of each, in a word that all see, what it has there. It changes a slot only
// when no rank has pinned it, and becomes another program or ends only when it has no visitor. A visitor that has pinned a
// slot must find just what the word says: the value in every page, no right more or less. One that has not may meet anything but
// another rank's data, or the kernel's. All ranks but 0 are several programs one after the other; odd numbers end early.
#include "slots.h"

#include <sys/uio.h>

enum { ROUNDS_AT_LEAST = 3, ONE_EXEC_IN = 60, CHANGES = 5, LOOKS = 25 };
#define SHUT UINT32_C(0x80000000)

// In rank 0, which stays.
static struct home {
    _Atomic uint32_t visitors[MOST_RANKS]; // with SHUT: none may come
    _Atomic int pids[MOST_RANKS];
    _Atomic int64_t began;
    _Atomic uint64_t looks, writes, changes, faults, programs;
    _Atomic uint32_t begun, arrived;
} home_place;

// As long as it takes: sixty-four ranks on two cores of a busy host are slow, and the test has a limit of its own.
#define WAIT_UNTIL(condition)                                                                                          \
    while (!(condition))                                                                                               \
    sched_yield()

static struct home *home;
static sigjmp_buf back;
static volatile sig_atomic_t guarded;
static uint64_t looks, writes, changes, faults;
static int pipe_ends[2];

static void caught(int signo, siginfo_t *info, void *context)
{
    (void)context;
    if (!guarded) {
        printf("FAIL rank %d: signal %d at %p\n", own_rank, signo, info->si_addr);
        fflush(stdout);
        _exit(1);
    }
    siglongjmp(back, 1);
}

// ---- Ways to another rank's memory; each says whether the access went through ----

enum way { INSTRUCTION, PROCESS_VM, SHIPPED };

// Nearly always by instructions: by process_vm_readv a core drops what it holds of windows, where a mistake would show.
static enum way any_way(void)
{
    unsigned number = any(512);
    return number == 0 ? SHIPPED : number < 8 ? PROCESS_VM : INSTRUCTION;
}

static int load(volatile uint64_t *from, uint64_t *value)
{
    int ok = 0;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0) {
        *value = *from;
        ok = 1;
    }
    guarded = 0;
    faults += !ok;
    return ok;
}

static int store(volatile uint64_t *to, uint64_t value)
{
    int ok = 0;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0) {
        *to = value;
        ok = 1;
    }
    guarded = 0;
    faults += !ok;
    return ok;
}

// `at`: as the rank itself has it.
static int load_of(int rank, enum way way, uint64_t at, uint64_t *value)
{
    struct iovec here = {value, sizeof *value}, there = {(void *)at, sizeof *value};
    uint64_t *word = OF(rank, (uint64_t *)at);
    switch (way) {
    case PROCESS_VM: return process_vm_readv(home->pids[rank], &here, 1, &there, 1, 0) == sizeof *value;
    case SHIPPED:
        if (write(pipe_ends[1], word, 8) == 8)
            return read(pipe_ends[0], value, 8) == 8;
        return errno == ENOMEM && load(word, value); // such a call takes some memory
    default: return load(word, value);
    }
}

static int store_of(int rank, enum way way, uint64_t at, uint64_t value)
{
    struct iovec here = {&value, sizeof value}, there = {(void *)at, sizeof value};
    uint64_t *word = OF(rank, (uint64_t *)at);
    switch (way) {
    case PROCESS_VM: return process_vm_writev(home->pids[rank], &here, 1, &there, 1, 0) == sizeof value;
    case SHIPPED:
        need(write(pipe_ends[1], &value, 8) == 8, "a pipe");
        if (read(pipe_ends[0], word, 8) == 8)
            return 1;
        int short_of_memory = errno == ENOMEM;
        need(read(pipe_ends[0], &value, 8) == 8, "what could not be read there");
        return short_of_memory && store(word, value);
    default: return store(word, value);
    }
}

// ---- Others' slots -------------------------------------------------------

// One of so many pages: often the first, which every visitor has seen before.
static uint64_t any_page(unsigned pages) { return any(2) ? 0 : (uint64_t)any(pages) * PAGE_BYTES; }

static int enter(int rank)
{
    if (!(atomic_fetch_add(&home->visitors[rank], 1) & SHUT))
        return 1;
    home->visitors[rank]--;
    return 0;
}

static void look_pinned(int rank, struct slot *slot)
{
    int kind = slot->kind;
    uint64_t found = 0, value = slot->value;
    for (int i = 0; i < 4 && kind != NOTHING; i++) {
        uint64_t at = slot->at + any_page(slot->pages);
        enum way way = any_way();
        looks++;
        must(load_of(rank, way, at, &found) == (kind != CLOSED), "a load is allowed that should not, or not", rank, at);
        must(kind == CLOSED || found == value, "another value", rank, found);
        // All write the same that is there.
        writes++;
        must(store_of(rank, way, at + 512, value) == (kind == WRITABLE), "a store is allowed that should not, or not", rank, at);
    }
}

static void visit(int rank)
{
    struct slot *slot = OF(rank, &slots[popular(SLOTS)]);
    int pins = slot->pins;
    if (pins < 0 || !atomic_compare_exchange_strong(&slot->pins, &pins, pins + 1))
        return;
    look_pinned(rank, slot);
    slot->pins--;
}

// Uninvited: the slot may change, and the rank become another program or end, at any moment.
static void stroll(int rank)
{
    struct slot *slot = OF(rank, &slots[popular(FIRST_STACK)]);
    uint64_t at, found = 0, sparse = SPARSE + (uint64_t)any(TABLES) * (2 << 20);
    if (!smartmap_alive(rank) || !load((volatile uint64_t *)&slot->at, &at))
        return;
    if (at != 0 && load_of(rank, any_way(), at + any_page(MOST_PAGES), &found))
        must(is_of(rank, found), "what is no memory of that rank's", rank, found);
    if (load_of(rank, any_way(), sparse, &found))
        must(is_of(rank, found), "what is no memory of that rank's", rank, found);
}

static void look(void)
{
    // Half of the time at one that has another core.
    int rank = any(2) ? (own_rank + ranks / 2) % ranks : (int)any((unsigned)ranks);
    if (any(4) == 0 || !enter(rank)) {
        stroll(rank);
    } else {
        visit(rank);
        home->visitors[rank]--;
    }
}

// ---- A rank's life -------------------------------------------------------

// Leaves what it has counted, when the last visitor has gone.
static void shut(void)
{
    atomic_fetch_or(&home->visitors[own_rank], SHUT);
    WAIT_UNTIL(home->visitors[own_rank] == SHUT);
    home->looks += looks;
    home->writes += writes;
    home->changes += changes;
    home->faults += faults;
}

static void become_another_program(char **argv, int program)
{
    char number[16];
    shut();
    snprintf(number, sizeof number, "%d", program + 1);
    execv("/proc/self/exe", (char *[]){argv[0], argv[1], argv[2], number, NULL});
    need(0, "execv");
}

static void begin_program(int program)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
    begin_heap();
    need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    need(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe");
    home->pids[own_rank] = getpid();
    home->programs++;
    if (program == 0 && own_rank == 0)
        home->began = clock_ns(CLOCK_MONOTONIC);
    if (program == 0)
        home->begun++;
    WAIT_UNTIL(home->begun == (uint32_t)ranks);
    atomic_fetch_and(&home->visitors[own_rank], ~SHUT);
}

// Whether the time is over, and everything has been done once.
static int is_over(int64_t end, int program)
{
    return clock_ns(CLOCK_MONOTONIC) >= end && writes > 0 && changes > 0 && (program > 0 || own_rank == 0);
}

static void race(char **argv, int64_t end, int program)
{
    for (int round = 0; !is_over(end, program); round++) {
        for (int i = 0; i < CHANGES; i++) {
            changes += (uint64_t)change();
            for (int j = 0; j < LOOKS; j++)
                look();
        }
        POPULAR += own_rank == 0;
        if (own_rank != 0 && round >= ROUNDS_AT_LEAST && (program == 0 || any(ONE_EXEC_IN) == 0))
            become_another_program(argv, program);
    }
}

int main(int argc, char **argv)
{
    int64_t time = number_arg(argc, argv, 1, 2000) * MS;
    int program = (int)number_arg(argc, argv, 3, 0);
    find_ranks(program == 0);
    home = OF(0, &home_place);
    seed = (unsigned)number_arg(argc, argv, 2, 1) * 1000003 + (unsigned)own_rank * 4099 + (unsigned)program;
    begin_program(program);
    race(argv, home->began + (own_rank % 2 ? time * (ranks + own_rank) / (2 * ranks) : time), program);
    if (own_rank % 2 == 1) {
        shut();
        remove_files();
        return 0;
    }
    home->arrived++;
    WAIT_UNTIL(home->arrived == (uint32_t)(ranks + 1) / 2);
    shut();
    remove_files();
    if (own_rank != 0)
        return 0;
    for (int rank = 1; rank < ranks; rank++)
        WAIT_UNTIL(!smartmap_alive(rank));
    printf("%lu looks, %lu writes, %lu changes, %lu faults\n", home->looks, home->writes, home->changes, home->faults);
    check(home->programs >= (uint64_t)(2 * ranks - 1), "%d ranks have been several programs", ranks);
    return check_done();
}
