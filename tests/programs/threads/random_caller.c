// Four threads make random calls that change memory, each within its own part of
// an arena and all within a common part, against models of what must be there.
//
//     random_caller [SEED [ROUNDS]]
//
// A thread's own part has a model of its own and needs no lock. The common part
// and its model are behind one: calls on them are made one at a time, by the thread
// that has it. Own and common parts lie in turn beside each other, so that what one
// thread maps next to another's is merged and split by the kernel. Each access
// is foretold by the model: contents, or a fault. Prints a digest of what each
// thread did and saw: the same for the same seed, in whatever order they ran.
#include "../common/parallel.h"

#include <fcntl.h>

enum { THREADS = 4, PAGES = 24, STRIDE = PAGES * PAGE_BYTES, PARTS = 2 * THREADS, BURST = 8 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

// What the model has of a page: a byte for all of it. Pages are written whole.
struct page {
    signed char prot; // -1: not mapped
    unsigned char value;
};
struct part {
    char *base;
    struct page pages[PAGES];
};
static struct part parts[PARTS]; // even: a thread's own, odd: common
static pthread_mutex_t common_lock = PTHREAD_MUTEX_INITIALIZER;
static char *arena;
static long rounds = 300;
static uint64_t seed = 1;

struct worker {
    pthread_t thread;
    int index, file;
    uint64_t state, digest;
    const char *wrong;
    long round;
};
static struct worker workers[THREADS];

static uint32_t next(struct worker *w)
{
    w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->state >> 33);
}
static void digest(struct worker *w, uint64_t value) { w->digest = (w->digest ^ value) * UINT64_C(1099511628211); }

static __thread sigjmp_buf back;
static void on_fault(int signo)
{
    (void)signo;
    siglongjmp(back, 1);
}
// The first and the last byte, or -1 for a fault.
static int probe(const char *at)
{
    if (sigsetjmp(back, 0) != 0)
        return -1;
    unsigned char first = *(volatile unsigned char *)at, last = *(volatile unsigned char *)(at + PAGE_BYTES - 1);
    return first == last ? first : -2;
}
static int fill(char *at, int value)
{
    if (sigsetjmp(back, 0) != 0)
        return -1;
    memset(at, value, PAGE_BYTES);
    return 0;
}

static void fail(struct worker *w, const char *what)
{
    if (w->wrong == NULL)
        w->wrong = what;
}
#define EXPECT(condition, what)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail(w, what);                                                                                             \
    } while (0)

// How many pages from the first on satisfy this.
static int run_of(const struct part *part, int first, int count, int (*good)(const struct page *))
{
    int n = 0;
    while (n < count && good(&part->pages[first + n]))
        n++;
    return n;
}
static int mapped(const struct page *page) { return page->prot >= 0; }
static int readable(const struct page *page) { return page->prot > 0; }
static int writable(const struct page *page) { return page->prot == READ_WRITE; }

static void set(struct part *part, int first, int count, int prot, int value)
{
    for (int i = first; i < first + count; i++) {
        if (prot >= -1)
            part->pages[i].prot = (signed char)prot;
        if (value >= 0)
            part->pages[i].value = (unsigned char)value;
    }
}

// A call that takes memory from Linux or gives some to it: all up to the first page that cannot be used.
static void transfer(struct worker *w, struct part *part, int first, int count, int value, int in)
{
    static const char *const texts[] = {"write(2)", "read(2)"};
    char *at = part->base + first * PAGE_BYTES, page[PAGE_BYTES];
    int good = run_of(part, first, count, in ? writable : readable);
    ssize_t length = (ssize_t)count * PAGE_BYTES, wanted = (ssize_t)good * PAGE_BYTES;
    if (!in) {
        ssize_t got = pwrite(w->file, at, (size_t)length, 0);
        EXPECT(good == 0 ? got == -1 && errno == EFAULT : got == wanted, texts[0]);
        if (good > 0)
            EXPECT(pread(w->file, page, 1, (good - 1) * PAGE_BYTES) == 1 &&
                       (unsigned char)page[0] == part->pages[first + good - 1].value,
                   "what write(2) wrote");
        return;
    }
    memset(page, value, sizeof page);
    for (int i = 0; i < count; i++)
        need(pwrite(w->file, page, PAGE_BYTES, i * PAGE_BYTES) == PAGE_BYTES, "pwrite");
    ssize_t got = pread(w->file, at, (size_t)length, 0);
    EXPECT(good == 0 ? got == -1 && errno == EFAULT : got == wanted, texts[1]);
    set(part, first, good, -2, value);
}

// A futex operation sees the value, or that it cannot.
static void look_by_futex(struct worker *w, struct part *part, int first)
{
    struct page *page = &part->pages[first];
    long result = futex(part->base + first * PAGE_BYTES, PRIVATE(FUTEX_WAIT), ~(page->value * UINT32_C(0x01010101)), NULL, NULL, 0);
    EXPECT(result == -1 && errno == (readable(page) ? EAGAIN : EFAULT), "futex(2)");
}

static void move(struct worker *w, struct part *part, int first, int count, int to)
{
    struct page saved[PAGES];
    int apart = to + count <= first || first + count <= to;
    int good = run_of(part, first, count, mapped) == count;
    // Linux moves one mapping at a time: pages of different protections are several.
    for (int i = 1; good && i < count; i++)
        good = part->pages[first + i].prot == part->pages[first].prot;
    if (!apart || !good)
        return;
    memcpy(saved, part->pages + first, sizeof saved[0] * (size_t)count);
    char *from = part->base + first * PAGE_BYTES, *place = part->base + to * PAGE_BYTES;
    size_t bytes = (size_t)count * PAGE_BYTES;
    EXPECT(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place, "mremap(2)");
    set(part, first, count, -1, 0);
    memcpy(part->pages + to, saved, sizeof saved[0] * (size_t)count);
}

// One call or access, and what the model says of it.
static void step(struct worker *w, struct part *part)
{
    int first = (int)(next(w) % PAGES), count = 1 + (int)(next(w) % (uint32_t)(PAGES - first));
    int value = 1 + (int)(next(w) % 255), kind = (int)(next(w) % 12), prots[] = {PROT_NONE, PROT_READ, READ_WRITE, READ_WRITE};
    int prot = prots[next(w) % 4], to = (int)(next(w) % (uint32_t)(PAGES - count + 1));
    char *at = part->base + first * PAGE_BYTES;
    size_t bytes = (size_t)count * PAGE_BYTES;
    int whole = run_of(part, first, count, mapped) == count;
    switch (kind) {
    case 0:
    case 1:
        EXPECT(mmap(at, bytes, prot, ANON | MAP_FIXED, -1, 0) == at, "mmap(2)");
        set(part, first, count, prot, 0);
        break;
    case 2:
        EXPECT(munmap(at, bytes) == 0, "munmap(2)");
        set(part, first, count, -1, 0);
        break;
    case 3:
    case 4:
        EXPECT(mprotect(at, bytes, prot) == (whole ? 0 : -1) && (whole || errno == ENOMEM), "mprotect(2)");
        // With a hole, what lies before it has changed.
        set(part, first, run_of(part, first, count, mapped), prot, -1);
        break;
    case 5:
        EXPECT(madvise(at, bytes, MADV_DONTNEED) == (whole ? 0 : -1) && (whole || errno == ENOMEM), "madvise(2)");
        // It passes over holes.
        for (int i = first; i < first + count; i++)
            if (mapped(&part->pages[i]))
                part->pages[i].value = 0;
        break;
    case 6:
        move(w, part, first, count, to);
        break;
    case 7:
        transfer(w, part, first, count, value, 1);
        break;
    case 8:
        transfer(w, part, first, count, value, 0);
        break;
    case 9:
        look_by_futex(w, part, first);
        break;
    default:
        for (int i = first; i < first + count; i++) {
            int good = writable(&part->pages[i]);
            EXPECT(fill(part->base + i * PAGE_BYTES, value) == (good ? 0 : -1), "a store");
            if (good)
                part->pages[i].value = (unsigned char)value;
        }
    }
    digest(w, (uint64_t)kind << 32 | (uint64_t)first << 16 | (uint64_t)count);
}

// All of a part, against its model.
static void compare(struct worker *w, const struct part *part, int digested)
{
    for (int i = 0; i < PAGES; i++) {
        int wanted = readable(&part->pages[i]) ? part->pages[i].value : -1;
        EXPECT(probe(part->base + i * PAGE_BYTES) == wanted, "a load");
        if (digested)
            digest(w, (uint64_t)wanted);
    }
}

static atomic_int ready;
static void *work(void *arg)
{
    struct worker *w = arg;
    ready++;
    AWAIT(ready == THREADS);
    for (w->round = 0; w->round < rounds && w->wrong == NULL; w->round++) {
        struct part *own = &parts[2 * w->index];
        for (int i = 0; i < BURST && w->wrong == NULL; i++)
            step(w, own);
        compare(w, own, 1);
        struct part *common = &parts[2 * (next(w) % THREADS) + 1];
        pthread_mutex_lock(&common_lock);
        step(w, common);
        compare(w, common, 0);
        pthread_mutex_unlock(&common_lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    seed = (uint64_t)number_arg(argc, argv, 1, 1);
    rounds = number_arg(argc, argv, 2, rounds);
    arena = mmap(NULL, PARTS * STRIDE, PROT_NONE, ANON, -1, 0);
    need(arena != MAP_FAILED, "mmap");
    for (int i = 0; i < PARTS; i++)
        parts[i].base = arena + i * STRIDE;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < THREADS; i++) {
        char name[16];
        snprintf(name, sizeof name, "data%d", i);
        workers[i] = (struct worker){.index = i, .state = seed * 4 + (uint64_t)i, .digest = UINT64_C(14695981039346656037)};
        workers[i].file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        need(workers[i].file >= 0 && unlink(name) == 0, "a file");
    }
    for (int i = 0; i < THREADS; i++)
        workers[i].thread = start(work, &workers[i]);
    for (int i = 0; i < THREADS; i++)
        joined(workers[i].thread);
    for (int i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];
        check(w->wrong == NULL, "thread %d: digest %016llx", i, (unsigned long long)w->digest);
        if (w->wrong)
            printf("     seed %llu, round %ld: %s is not as the model has it\n", (unsigned long long)seed, w->round, w->wrong);
    }
    return check_done();
}
