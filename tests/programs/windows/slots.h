// What a rank of race.c has for others to read and write: slots of memory of every origin, and what is in each, in words that all
// see. All that a rank ever stores in one carries its number.
#ifndef MARGAY_SLOTS_H
#define MARGAY_SLOTS_H

#include "windows.h"

#include <fcntl.h>

enum { SLOTS = 24, SLOT_BYTES = 8 << 20, MOST_PAGES = 16, LARGE_PAGES = 512, TABLES = 40, PAGE_WORDS = PAGE_BYTES / 8 };
#define FIRST UINT64_C(0x2000000000)
#define SPARSE UINT64_C(0x3000000000)
#define TAG UINT64_C(0x5afe000000000000)

// What is in a slot. NOTHING: nothing is said of what is there.
enum { NOTHING, WRITABLE, READABLE, CLOSED };

// Where its memory comes from, by its index: mappings of its own; of files, shared; the heap; stacks of threads; static data.
enum { FIRST_FILE = 17, HEAP = 20, FIRST_STACK = 21, STATIC = 23, STACKS = STATIC - FIRST_STACK };

static struct slot {
    _Atomic int pins; // -1: its rank changes it
    _Atomic int kind;
    _Atomic uint32_t pages;
    _Atomic uint64_t value, at;
} slots[SLOTS];

static unsigned seed;
static unsigned any(unsigned below) { return (unsigned)rand_r(&seed) % below; }

// Half of the time the one that all ranks use most at the moment: what one has just looked at another changes.
#define POPULAR shared->word[0]
static unsigned popular(unsigned below) { return any(2) ? (unsigned)(POPULAR % below) : any(below); }

CHECK_HELPER void must(int ok, const char *what, int rank, uint64_t found)
{
    if (ok)
        return;
    printf("FAIL rank %d, of rank %d: %s: %#lx\n", own_rank, rank, what, (unsigned long)found);
    fflush(stdout);
    _exit(1);
}

CHECK_HELPER uint64_t tagged(int rank, uint64_t value) { return TAG | (uint64_t)rank << 40 | (value & 0xffffffffff); }
CHECK_HELPER int is_of(int rank, uint64_t found) { return found == 0 || found >> 40 == tagged(rank, 0) >> 40; }
CHECK_HELPER int index_of(const struct slot *slot) { return (int)(slot - slots); }
CHECK_HELPER int is_mapping(const struct slot *slot) { return index_of(slot) < HEAP; }
CHECK_HELPER int is_file(const struct slot *slot) { return is_mapping(slot) && index_of(slot) >= FIRST_FILE; }
CHECK_HELPER int is_stack(const struct slot *slot) { return index_of(slot) >= FIRST_STACK && index_of(slot) < STATIC; }

// One of the two places of a mapping.
CHECK_HELPER char *address(const struct slot *slot, int other)
{
    return (char *)(FIRST + (uint64_t)index_of(slot) * SLOT_BYTES + (uint64_t)other * SLOT_BYTES * SLOTS);
}

// ---- Files ---------------------------------------------------------------

CHECK_HELPER const char *file_name(const struct slot *slot)
{
    static char name[32];
    snprintf(name, sizeof name, "race.%d.%d", own_rank, index_of(slot));
    return name;
}

// One that is new, or cut, or as it was left; often without a name, so that its number is soon another file's.
CHECK_HELPER char *map_file(const struct slot *slot, char *at, size_t bytes)
{
    int fd = open(file_name(slot), O_CREAT | O_RDWR | O_CLOEXEC | (any(2) ? O_TRUNC : 0), 0600);
    need(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "a file");
    char *got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (any(2))
        unlink(file_name(slot));
    return got;
}

CHECK_HELPER void remove_files(void)
{
    for (int i = FIRST_FILE; i < HEAP; i++)
        unlink(file_name(&slots[i]));
}

// ---- The heap ------------------------------------------------------------

// Behind what the C library has of it, which is enough for all that this program requests of it.
static char *heap;

CHECK_HELPER void begin_heap(void)
{
    free(malloc(1));
    heap = (char *)(((uintptr_t)sbrk(0) + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES);
}

// ---- Stacks --------------------------------------------------------------

static struct sleeper {
    pthread_t thread;
    word_t over;
} sleepers[STACKS];

// A thread that does nothing but have a stack.
CHECK_HELPER void *sleep_there(void *arg)
{
    struct slot *slot = arg;
    struct sleeper *self = &sleepers[index_of(slot) - FIRST_STACK];
    volatile uint64_t room[MOST_PAGES * PAGE_WORDS] __attribute__((aligned(PAGE_BYTES)));
    room[0] = 0;
    slot->at = (uint64_t)room;
    while (!self->over)
        futex_wait(&self->over, 0);
    return NULL;
}

CHECK_HELPER int begin_stack(struct slot *slot)
{
    struct sleeper *sleeper = &sleepers[index_of(slot) - FIRST_STACK];
    slot->at = 0;
    sleeper->over = 0;
    if (try_start(&sleeper->thread, SMALL_STACK_BYTES, sleep_there, slot) != 0)
        return 0;
    while (slot->at == 0)
        sched_yield();
    return 1;
}

CHECK_HELPER void end_stack(struct slot *slot)
{
    struct sleeper *sleeper = &sleepers[index_of(slot) - FIRST_STACK];
    sleeper->over = 1;
    futex_wake(&sleeper->over, 1);
    joined(sleeper->thread);
}

// ---- All slots -----------------------------------------------------------

static volatile uint64_t statics[MOST_PAGES * PAGE_WORDS] __attribute__((aligned(PAGE_BYTES)));

CHECK_HELPER void fill(struct slot *slot, uint64_t value)
{
    for (uint32_t page = 0; page < slot->pages; page++)
        for (int word = 0; word < PAGE_WORDS; word += 64)
            ((volatile uint64_t *)(slot->at + (uint64_t)page * PAGE_BYTES))[word] = tagged(own_rank, value);
    slot->value = tagged(own_rank, value);
}

// Where memory for so many pages now is; NULL: there is none.
CHECK_HELPER char *get_memory(struct slot *slot, size_t pages)
{
    size_t bytes = pages * PAGE_BYTES;
    if (index_of(slot) == STATIC)
        return (char *)(uintptr_t)statics;
    if (index_of(slot) == HEAP)
        return brk(heap + bytes) == 0 ? heap : NULL;
    if (is_stack(slot))
        return begin_stack(slot) ? (char *)slot->at : NULL;
    char *at = address(slot, any(4) == 0);
    at = is_file(slot) ? map_file(slot, at, bytes)
                       : mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

CHECK_HELPER void map_slot(struct slot *slot)
{
    size_t count = is_mapping(slot) ? 1 + any(MOST_PAGES) : MOST_PAGES;
    // Of files that are large one rank's are enough.
    if (is_mapping(slot) && any(16) == 0 && (own_rank == 0 || !is_file(slot)))
        count = LARGE_PAGES;
    char *at = get_memory(slot, count);
    if (at == NULL)
        return;
    slot->at = (uint64_t)at;
    slot->pages = (uint32_t)count;
    for (size_t page = 0; page < count && index_of(slot) <= HEAP; page++) {
        uint64_t found = *(volatile uint64_t *)(at + page * PAGE_BYTES);
        must(is_file(slot) ? is_of(own_rank, found) : found == 0, "fresh memory", own_rank, found);
    }
    slot->kind = WRITABLE;
}

// Whether it could: where memory is short a mapping may stay.
CHECK_HELPER int unmap_slot(struct slot *slot)
{
    void *at = (void *)slot->at;
    size_t bytes = slot->pages * PAGE_BYTES;
    int done;
    if (is_mapping(slot))
        done = munmap(at, bytes) == 0;
    else if (index_of(slot) == HEAP)
        done = brk(heap) == 0;
    else
        done = mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
    if (done && is_stack(slot))
        end_stack(slot);
    if (done)
        slot->kind = NOTHING;
    return done;
}

CHECK_HELPER void move_slot(struct slot *slot)
{
    char *to = address(slot, slot->at == (uint64_t)address(slot, 0));
    size_t bytes = slot->pages * PAGE_BYTES;
    if (is_mapping(slot) && mremap((void *)slot->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
        slot->at = (uint64_t)to;
}

CHECK_HELPER void protect_slot(struct slot *slot)
{
    static const int rights[] = {[WRITABLE] = PROT_READ | PROT_WRITE, [READABLE] = PROT_READ, [CLOSED] = PROT_NONE};
    int kind = 1 + (int)any(3);
    if (mprotect((void *)slot->at, slot->pages * PAGE_BYTES, rights[kind]) == 0)
        slot->kind = kind;
}

// Many page tables that come and go.
CHECK_HELPER void churn_tables(void)
{
    for (int i = 0; i < TABLES; i++)
        mmap((void *)(SPARSE + (uint64_t)i * (2 << 20)), PAGE_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    munmap((void *)SPARSE, (uint64_t)TABLES * (2 << 20));
}

// Changes one at random, if no rank has pinned it; whether it could.
CHECK_HELPER int change(void)
{
    struct slot *slot = &slots[popular(SLOTS)];
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&slot->pins, &nobody, -1))
        return 0;
    if (slot->kind == NOTHING)
        map_slot(slot);
    else
        switch (any(8)) {
        case 0: unmap_slot(slot); break;
        case 1: move_slot(slot); break;
        case 2: churn_tables(); break;
        case 3:
        case 4: protect_slot(slot); break;
        default:
            if (unmap_slot(slot))
                map_slot(slot);
        }
    if (slot->kind == WRITABLE)
        fill(slot, any(1 << 30) + 1);
    slot->pins = 0;
    return 1;
}

#endif
