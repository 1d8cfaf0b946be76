// Ranks that map, unmap, move, protect and end while all others read and write their memory, against a model.
//
//   race MILLISECONDS SEED
//
// Each rank has slots of memory and says of each, in a word that all see, what it has there. It changes a slot only when
// nobody has pinned it. Who has pinned one must find just what the word says: the value in every page, no right more or
// less. Who has not may meet anything but another rank's data, or the kernel's: all that a rank ever stores carries its
// number. Odd numbers end early.
#include "windows.h"

enum { SLOTS = 24, SLOT_BYTES = 8 << 20, MOST_PAGES = 16, LARGE_PAGES = 512, TABLES = 40 };
#define FIRST UINT64_C(0x2000000000)
#define SPARSE UINT64_C(0x3000000000)
#define TAG UINT64_C(0x5afe000000000000)

// What is in a slot.
enum { NOTHING, WRITABLE, READABLE, CLOSED };

static struct slot {
    _Atomic int pins; // -1: its rank changes it
    _Atomic int kind;
    _Atomic uint32_t pages;
    _Atomic uint64_t value, at;
} slots[SLOTS];

static unsigned seed;
static sigjmp_buf back;
static volatile sig_atomic_t guarded;
static uint64_t looks, writes, changes, faults;

static unsigned any(unsigned below) { return (unsigned)rand_r(&seed) % below; }

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

// Whether the access goes through.
static int load(volatile uint64_t *from, uint64_t *value)
{
    int ok = 0;
    guarded = 1;
    if (sigsetjmp(back, 1) == 0) {
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
    if (sigsetjmp(back, 1) == 0) {
        *to = value;
        ok = 1;
    }
    guarded = 0;
    faults += !ok;
    return ok;
}

static void must(int ok, const char *what, int rank, uint64_t found)
{
    if (ok)
        return;
    printf("FAIL rank %d, of rank %d: %s: %#lx\n", own_rank, rank, what, (unsigned long)found);
    fflush(stdout);
    _exit(1);
}

static uint64_t tagged(int rank, uint64_t value) { return TAG | (uint64_t)rank << 40 | (value & 0xffffffffff); }
static int is_of(int rank, uint64_t found) { return found == 0 || found >> 40 == tagged(rank, 0) >> 40; }

// ---- Its own slots -------------------------------------------------------

static char *address(const struct slot *slot, int other)
{
    return (char *)(FIRST + (uint64_t)(slot - slots) * SLOT_BYTES + (uint64_t)other * SLOT_BYTES * SLOTS);
}

static void fill(struct slot *slot, uint64_t value)
{
    for (uint32_t page = 0; page < slot->pages; page++)
        for (int word = 0; word < PAGE_BYTES / 8; word += 64)
            ((volatile uint64_t *)(slot->at + (uint64_t)page * PAGE_BYTES))[word] = tagged(own_rank, value);
    slot->value = tagged(own_rank, value);
}

static void map_slot(struct slot *slot)
{
    size_t count = any(6) == 0 ? LARGE_PAGES : 1 + any(MOST_PAGES);
    char *at = address(slot, (int)any(2));
    at = mmap(at, count * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED)
        return;
    slot->at = (uint64_t)at;
    slot->pages = (uint32_t)count;
    for (size_t page = 0; page < count; page++)
        must(*(volatile uint64_t *)(at + page * PAGE_BYTES) == 0, "fresh memory", own_rank, *(uint64_t *)(at + page * PAGE_BYTES));
    slot->kind = WRITABLE;
}

static void unmap_slot(struct slot *slot)
{
    munmap((void *)slot->at, slot->pages * PAGE_BYTES);
    slot->kind = NOTHING;
}

static void move_slot(struct slot *slot)
{
    char *to = address(slot, slot->at == (uint64_t)address(slot, 0));
    size_t bytes = slot->pages * PAGE_BYTES;
    if (mremap((void *)slot->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
        slot->at = (uint64_t)to;
}

// Many page tables that come and go.
static void churn_tables(void)
{
    for (int i = 0; i < TABLES; i++)
        mmap((void *)(SPARSE + (uint64_t)i * (2 << 20)), PAGE_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    munmap((void *)SPARSE, (uint64_t)TABLES * (2 << 20));
}

static void protect_slot(struct slot *slot)
{
    static const int rights[] = {[WRITABLE] = PROT_READ | PROT_WRITE, [READABLE] = PROT_READ, [CLOSED] = PROT_NONE};
    int kind = 1 + (int)any(3);
    if (mprotect((void *)slot->at, slot->pages * PAGE_BYTES, rights[kind]) == 0)
        slot->kind = kind;
}

static void change(void)
{
    struct slot *slot = &slots[any(SLOTS)];
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&slot->pins, &nobody, -1))
        return;
    changes++;
    if (slot->kind == NOTHING)
        map_slot(slot);
    else
        switch (any(6)) {
        case 0: unmap_slot(slot); break;
        case 1: unmap_slot(slot), map_slot(slot); break;
        case 2: move_slot(slot); break;
        case 3: churn_tables(); break;
        default: protect_slot(slot); break;
        }
    if (slot->kind == WRITABLE)
        fill(slot, any(1 << 30) + 1);
    slot->pins = 0;
}

// ---- Others' slots -------------------------------------------------------

static void look_pinned(int rank, struct slot *slot)
{
    int kind = slot->kind;
    uint64_t found = 0, value = slot->value;
    for (int i = 0; i < 4 && kind != NOTHING; i++) {
        volatile uint64_t *word = OF(rank, (uint64_t *)(slot->at + (uint64_t)any(slot->pages) * PAGE_BYTES));
        looks++;
        must(load(word, &found) == (kind != CLOSED), "a load is allowed that should not, or not", rank, (uint64_t)word);
        must(kind == CLOSED || found == value, "another value", rank, found);
        // Each writes words of its own, the same that is there.
        writes++;
        must(store(word + 64, value) == (kind == WRITABLE), "a store is allowed that should not, or not", rank, (uint64_t)word);
    }
}

static void look(void)
{
    int rank = (int)any((unsigned)ranks);
    uint64_t found;
    struct slot *slot = OF(rank, &slots[any(SLOTS)]);
    uint64_t at, pages, pins;
    if (!smartmap_alive(rank))
        return;
    // It may end at any moment.
    if (!load((volatile uint64_t *)&slot->at, &at) || !load((volatile uint64_t *)slot, &pins) ||
        !load((volatile uint64_t *)&slot->pages, &pages))
        return;
    if (at != 0 && load(OF(rank, (volatile uint64_t *)(at + any(MOST_PAGES) * PAGE_BYTES)), &found))
        must(is_of(rank, found), "what is no memory of that rank's", rank, found);
    if (load(OF(rank, (volatile uint64_t *)(SPARSE + (uint64_t)any(TABLES) * (2 << 20))), &found))
        must(is_of(rank, found), "what is no memory of that rank's", rank, found);
    if (rank % 2 == 1 || (int)pins < 0)
        return; // of one that ends nothing is pinned
    int expected = (int)pins;
    if (!atomic_compare_exchange_strong(&slot->pins, &expected, expected + 1))
        return;
    look_pinned(rank, slot);
    slot->pins--;
}

int main(int argc, char **argv)
{
    int64_t time = number_arg(argc, argv, 1, 2000) * MS;
    begin_ranks();
    seed = (unsigned)number_arg(argc, argv, 2, 1) * 1000 + (unsigned)own_rank;
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
    need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    meet(0);
    int64_t end = clock_ns(CLOCK_MONOTONIC) + (own_rank % 2 ? time * own_rank / (2 * ranks) : time);
    while (clock_ns(CLOCK_MONOTONIC) < end)
        for (int i = 0; i < 20; i++) {
            change();
            for (int j = 0; j < 5; j++)
                look();
        }
    shared->word[own_rank] = looks;
    if (own_rank % 2 == 1)
        return 0;
    shared->arrived[1]++;
    AWAIT(shared->arrived[1] == (uint32_t)(ranks + 1) / 2);
    check(looks > 0 && writes > 0 && changes > 0, "rank %d has looked, written and changed", own_rank);
    if (own_rank != 0) {
        printf("rank %d: %lu looks, %lu changes, %lu faults\n", own_rank, looks, changes, faults);
        return check_failures;
    }
    return end_ranks();
}
