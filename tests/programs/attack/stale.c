// Ranks that hold on to translations of each other's memory while its owner recycles memory and page tables: `stale SEED STEPS`.
//
// Every rank is owner and peer in turns: who changes its own memory drops what it holds of others. As owner it maps, unmaps, protects, moves, discards, makes and drops page tables, maps
// files, moves its heap's end, has children and becomes other programs; in all of that memory it stores nothing but words that carry
// its number. What its children store in their copies carries no rank's.
// As peer it keeps a few pages of others and reads all of them, again and again, whether or not they are still mapped there. A word
// that is neither 0 nor has the number of the rank in whose window it was found is another rank's, a page table's or the
// kernel's. What it stores in such a page carries the owner's number, too: in a page table it would end the owner.
#include "stale.h"

// ---- As peer -------------------------------------------------------------

// A page that was there once.
struct held {
    unsigned rank;
    uint64_t at; // 0: none
};
static struct held held[HELD];

// Each rank's heap begins elsewhere. Of one that is not there, and in a child, where one's own does.
static uint64_t heap_of(unsigned rank)
{
    volatile uint64_t start = (uint64_t)heap;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0)
        start = *(volatile uint64_t *)window(rank, (uint64_t)&heap);
    guarded = 0;
    return start;
}

static struct held any_page(void)
{
    // Half of the time of a rank that has another core.
    unsigned rank = next(2) ? (own + ranks / 2) % ranks : (unsigned)next(ranks);
    switch (next(8)) {
    case 0: return (struct held){rank, FILES + PAGE * next(FILE_PAGES)};
    case 1: return (struct held){rank, heap_of(rank) + PAGE * next(HEAP_PAGES)};
    case 2: return (struct held){rank, table_at(next(MOST_TABLES)) + PAGE * next(TABLE_PAGES)};
    case 3: return (struct held){rank, LARGE + PAGE * next(LARGE_PAGES)};
    default: return (struct held){rank, ARENA + PAGE * next(ARENA_PAGES)};
    }
}

// Words of a page that rank `rank` has at `at`, all of them in STRIDE visits, and a word stored there now and then.
static void read_page(unsigned rank, uint64_t at)
{
    volatile uint64_t *there = window(rank, at);
    for (uint64_t word = visits % STRIDE; word < WORDS; word += STRIDE) {
        uint64_t found = there[word];
        if (!is_of(rank, found))
            fail("no word of that rank's", rank, at + word * 8, found);
    }
    if (next(4) == 0)
        there[next(WORDS)] = tagged(rank, visits);
}

// Whether it was there.
static int visit(const struct held *page)
{
    volatile int whole = 0;
    visits++;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0) {
        read_page(page->rank, page->at);
        whole = 1;
    }
    guarded = 0;
    seen += (uint64_t)whole;
    gone += (uint64_t)!whole;
    return whole;
}

// 0 when rank 0, which has it, has ended.
static int pid_of(unsigned rank)
{
    volatile int pid = 0;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0)
        pid = ((_Atomic int *)window(0, (uint64_t)pids))[rank];
    guarded = 0;
    return pid;
}

static void copy_by_the_kernel(struct held page)
{
    static uint64_t words[WORDS];
    struct iovec here = {words, PAGE}, there = {(void *)page.at, PAGE};
    ssize_t got = process_vm_readv(pid_of(page.rank), &here, 1, &there, 1, 0);
    for (ssize_t i = 0; i < got / 8; i++)
        if (!is_of(page.rank, words[i]))
            fail("copied what is no word of that rank's", page.rank, page.at + 8 * (uint64_t)i, words[i]);
}

// What is no program's, by any translation.
static void reach_for_the_kernel(void)
{
    static const uint64_t never[] = {
        0xffff800000000000, 0xffff800000100000, 0xffff800000200000, 0xffff800004000000, 0xffffff0000000000, 0xffffffff80000000, 0xffffffff80200000,
    };
    uint64_t at = PICK(never) + PAGE * next(1 << 14), found;
    if (ranks < SLOTS && next(2))
        at = (uint64_t)window(ranks + (unsigned)next(SLOTS - ranks), ARENA + PAGE * next(ARENA_PAGES));
    guarded = 1;
    if (sigsetjmp(back, 0) == 0) {
        found = *(volatile uint64_t *)at;
        guarded = 0;
        fail("it can be read", ranks, at, found);
    }
    guarded = 0;
}

static void look_around(void)
{
    for (int i = 0; i < VISITS; i++) {
        struct held *page = &held[next(HELD)];
        if (page->at == 0)
            *page = any_page();
        if (!visit(page))
            page->at = 0;
    }
    if (next(8) == 0)
        reach_for_the_kernel();
    // The kernel drops what this core holds before it copies, so seldom.
    if (next(128) == 0)
        copy_by_the_kernel(any_page());
}

// ---- As parent -----------------------------------------------------------

// Whether a page is there, with its parent's words or the child's; and stores `word`, unless it is 0.
static int has_page(uint64_t at, uint64_t word)
{
    volatile int there = 0;
    guarded = 1;
    if (sigsetjmp(back, 0) == 0) {
        for (volatile uint64_t *found = (uint64_t *)at; found < (uint64_t *)(at + PAGE); found++)
            if (!is_of(own, *found) && !is_of(SLOTS, *found))
                fail("a child has what is no word of its parent's", own, (uint64_t)found, *found);
        there = 1;
        if (word)
            ((volatile uint64_t *)at)[next(WORDS)] = word;
    }
    guarded = 0;
    return there;
}

// Files are shared with the parent, and so with its peers; windows a child has none.
static _Noreturn void be_a_child(void)
{
    for (int i = 0; i < VISITS; i++) {
        struct held page = any_page();
        has_page(page.at, page.at < FILES || page.at >= SPARSE ? tagged(SLOTS, (uint64_t)i) : 0);
        if (has_page((uint64_t)window(page.rank, page.at), 0))
            fail("a child has a window", page.rank, page.at, 0);
    }
    _exit(0);
}

static void have_child(void)
{
    int status;
    pid_t child = next(2) ? forked() : vfork();
    if (child == 0)
        be_a_child();
    must(waitpid(child, &status, 0) == child && status == 0);
    children++;
}

// ---- Its life ------------------------------------------------------------

// Rank 0 may not be there yet, and may have ended when it has been seen: either is a reason to go on.
static void meet(void)
{
    _Atomic unsigned *all = window(0, (uint64_t)&started);
    volatile int told = 0, there = 1;
    while (there) {
        guarded = 1;
        if (sigsetjmp(back, 0) == 0) {
            if (!told) {
                ((_Atomic int *)window(0, (uint64_t)pids))[own] = getpid();
                told = 1;
                atomic_fetch_add(all, 1);
            }
            there = *all < ranks;
        } else {
            there = !told;
        }
        guarded = 0;
        usleep(there ? 1000 : 0);
    }
}

static void become_another_program(char **argv, uint64_t left, uint64_t tables)
{
    char numbers[5][24];
    uint64_t values[] = {left, tables, seen, gone, children};
    char *args[8] = {argv[0], argv[1]};
    for (int i = 0; i < 5; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lu", values[i]);
        args[2 + i] = numbers[i];
    }
    execv("/proc/self/exe", args);
    must(!"execv");
}

int main(int argc, char **argv)
{
    uint64_t words[6] = {1, 1000, 0, 0, 0, 0}; // seed, steps, tables, seen, gone, children
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
    for (int i = 1; i < argc && i <= 6; i++)
        words[i - 1] = strtoull(argv[i], NULL, 10);
    const char *rank = getenv("MARGAY_RANK"), *size = getenv("MARGAY_SIZE");
    own = rank ? (unsigned)atoi(rank) : 0;
    ranks = size ? (unsigned)atoi(size) : 1;
    state = ((words[0] << 8 | own) << 24 ^ words[1]) * 2 + 1;
    seen = words[3], gone = words[4], children = words[5];
    heap = (char *)(((uintptr_t)sbrk(0) + PAGE - 1) & -(uintptr_t)PAGE);
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    begin_memory();
    if (argc <= 3)
        meet();
    for (uint64_t left = words[1], tables = words[2]; left > 0;) {
        uint64_t step = words[1] - left;
        if (ranks == 1 || (step / PHASE + own) % 2 == 0)
            change(step, &tables);
        if (next(ONE_CHILD_IN) == 0)
            have_child();
        look_around();
        if (--left > 0 && own != 0 && next(ONE_EXEC_IN) == 0)
            become_another_program(argv, left, tables);
    }
    dprintf(1, "%lu pages read, %lu that were not there\n%lu children\n", seen, gone, children);
    return 0;
}
