// Random memory calls against a model: `memory SEED OPERATIONS`. For every page of a territory the model says whether it is
// mapped, what may be done with it and what it holds; each call's result follows from that. So does what a touch meets (the
// value, or a signal with its code), what Linux meets that reads or writes the page for a shipped call, and what
// /proc/self/maps shows of what can be touched (Margay shows no more). The last line is a digest of all results, which is the same on any kernel.
#define _GNU_SOURCE
#include "memory.h"

// Calls. Each is given a range of the territory.

struct range {
    uint64_t first, count;
};

static struct range any_range(void)
{
    static const uint64_t lengths[] = {1, 1, 2, 3, 5, 8, 16, 33, 64, 511, 512, 513, 1024};
    struct range range = {next(4) ? next(PAGES) : next(PAGES / 512) * 512, PICK(lengths)};
    if (range.count > PAGES - range.first)
        range.count = PAGES - range.first;
    return range;
}

static char *address(uint64_t page) { return BASE + page * PAGE; }

static int is_free(struct range range)
{
    for (uint64_t i = 0; i < range.count; i++)
        if (pages[range.first + i].prot != NONE)
            return 0;
    return 1;
}

// Pages from the range's first on that are mapped.
static uint64_t mapped(struct range range)
{
    uint64_t count = 0;
    while (count < range.count && pages[range.first + count].prot != NONE)
        count++;
    return count;
}

static int is_one_vma(struct range range)
{
    for (uint64_t i = 0; i < range.count; i++)
        if (pages[range.first + i].prot == NONE || pages[range.first + i].id != pages[range.first].id)
            return 0;
    return 1;
}

static void set(struct range range, uint8_t prot)
{
    last_id++;
    for (uint64_t i = 0; i < range.count; i++)
        pages[range.first + i] = (struct page){prot, last_id, 0};
}

static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC, PROT_WRITE};

static void do_mmap(struct range range)
{
    static const int where[] = {MAP_FIXED, MAP_FIXED, MAP_FIXED_NOREPLACE, 0};
    int prot = PICK(protections), flags = PICK(where);
    char *at = address(range.first);
    uint64_t odd = next(8) ? 0 : next(PAGE);
    sprintf(doing, "mmap(%p, %llu pages, %d, %#x)", at, (unsigned long long)range.count, prot, flags);
    if (odd && flags) {
        expect("an odd address", range.first, -EINVAL, result((long)mmap(at + odd, PAGE, prot, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
        return;
    }
    long got = result((long)mmap(at, range.count * PAGE - odd, prot, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (flags == 0 && !is_free(range)) { // somewhere else
        expect("moved", range.first, 1, got > 0 && (got < (long)BASE || got >= (long)address(PAGES)));
        expect("and away", range.first, 0, result(munmap((void *)got, range.count * PAGE)));
        return;
    }
    int fits = flags != MAP_FIXED_NOREPLACE || is_free(range);
    expect("its result", range.first, fits ? (long)at : -EEXIST, got);
    if (fits)
        set(range, (uint8_t)prot);
}

static void do_munmap(struct range range)
{
    uint64_t odd = next(8) ? 0 : next(PAGE);
    sprintf(doing, "munmap(%p, %llu pages)", address(range.first), (unsigned long long)range.count);
    if (next(16) == 0) {
        expect("nothing", range.first, -EINVAL, result(munmap(address(range.first), 0)));
        expect("an odd address", range.first, -EINVAL, result(munmap(address(range.first) + 1, PAGE)));
        return;
    }
    expect("its result", range.first, 0, result(munmap(address(range.first), range.count * PAGE - odd)));
    for (uint64_t i = 0; i < range.count; i++)
        pages[range.first + i].prot = NONE;
}

static void do_mprotect(struct range range)
{
    int prot = PICK(protections);
    uint64_t changed = mapped(range);
    uint32_t id = last_id, before = 0;
    sprintf(doing, "mprotect(%p, %llu pages, %d)", address(range.first), (unsigned long long)range.count, prot);
    expect("its result", range.first, changed == range.count ? 0 : -ENOMEM, result(mprotect(address(range.first), range.count * PAGE, prot)));
    for (uint64_t i = 0; i < changed; i++) { // up to the hole
        struct page *page = &pages[range.first + i];
        id += i == 0 || page->id != before;
        before = page->id;
        page->prot = (uint8_t)prot;
        page->id = id;
    }
    last_id = id;
}

static void do_madvise(struct range range)
{
    static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED, MADV_NORMAL, MADV_WILLNEED, 99};
    int which = PICK(advice);
    sprintf(doing, "madvise(%p, %llu pages, %d)", address(range.first), (unsigned long long)range.count, which);
    long wanted = which == 99 ? -EINVAL : mapped(range) == range.count ? 0 : -ENOMEM;
    expect("its result", range.first, wanted, result(madvise(address(range.first), range.count * PAGE, which)));
    for (uint64_t i = 0; which == MADV_DONTNEED && i < range.count; i++)
        pages[range.first + i].tag = 0; // beyond a hole, too
}

static void do_look(struct range range)
{
    static unsigned char vector[PAGES];
    long whole = mapped(range) == range.count ? 0 : -ENOMEM;
    char *at = address(range.first);
    sprintf(doing, "mincore and msync(%p, %llu pages)", at, (unsigned long long)range.count);
    expect("mincore", range.first, whole, result(mincore(at, range.count * PAGE, vector)));
    expect("mincore to nowhere", range.first, pages[range.first].prot == NONE ? -ENOMEM : -EFAULT, result(mincore(at, PAGE, (void *)8)));
    expect("mincore of an odd address", range.first, -EINVAL, result(mincore(at + 1, PAGE, vector)));
    expect("msync", range.first, whole, result(msync(at, range.count * PAGE, MS_ASYNC)));
    expect("msync both ways", range.first, -EINVAL, result(msync(at, PAGE, MS_ASYNC | MS_SYNC)));
}

// Contents of a range, in order; the rest of `count` is zero.
static void take(struct range from, struct page *into, uint64_t count)
{
    last_id++;
    for (uint64_t i = 0; i < count; i++) {
        into[i] = pages[from.first + (i < from.count ? i : 0)];
        into[i].tag = i < from.count ? into[i].tag : 0;
        into[i].id = last_id;
    }
}

static void move_to(struct range range, struct range to)
{
    static struct page moved[PAGES];
    int overlap = range.first < to.first + to.count && to.first < range.first + range.count;
    sprintf(doing, "mremap(%p, %llu pages, to %p, %llu pages)", address(range.first), (unsigned long long)range.count, address(to.first), (unsigned long long)to.count);
    long got = result((long)mremap(address(range.first), range.count * PAGE, to.count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, address(to.first)));
    expect("its result", range.first, overlap ? -EINVAL : (long)address(to.first), got);
    if (overlap)
        return;
    take(range, moved, to.count);
    for (uint64_t i = 0; i < range.count; i++)
        pages[range.first + i].prot = NONE;
    memcpy(pages + to.first, moved, to.count * sizeof *moved);
}

static void resize(struct range range, uint64_t count)
{
    struct range more = {range.first + range.count, count > range.count ? count - range.count : 0};
    int fits = more.first + more.count <= PAGES && is_free(more);
    sprintf(doing, "mremap(%p, %llu pages, %llu pages)", address(range.first), (unsigned long long)range.count, (unsigned long long)count);
    if (more.first + more.count > PAGES)
        return; // what is behind the territory is not known
    long got = result((long)mremap(address(range.first), range.count * PAGE, count * PAGE, 0));
    expect("its result", range.first, fits ? (long)address(range.first) : -ENOMEM, got);
    if (!fits)
        return;
    for (uint64_t i = count; i < range.count; i++)
        pages[range.first + i].prot = NONE;
    for (uint64_t i = range.count; i < count; i++) {
        pages[range.first + i] = pages[range.first];
        pages[range.first + i].tag = 0;
    }
}

static void do_mremap(struct range range)
{
    sprintf(doing, "mremap(%p)", address(range.first));
    if (pages[range.first].prot == NONE) {
        expect("of nothing", range.first, -EFAULT, result((long)mremap(address(range.first), PAGE, 2 * PAGE, MREMAP_MAYMOVE)));
        return;
    }
    while (!is_one_vma(range))
        range.count = (range.count + 1) / 2;
    expect("to nothing", range.first, -EINVAL, result((long)mremap(address(range.first), range.count * PAGE, 0, MREMAP_MAYMOVE)));
    struct range to = any_range();
    if (next(2))
        move_to(range, next(2) ? to : (struct range){to.first, to.count < range.count ? to.count : range.count});
    else
        resize(range, to.count);
}

// The heap.

static void do_brk(void)
{
    uint64_t wanted = next(HEAP_PAGES + 1);
    char *end = heap_start + wanted * PAGE;
    sprintf(doing, "brk to %llu pages", (unsigned long long)wanted);
    expect("its result", wanted, 1, syscall(SYS_brk, end) == (long)end);
    for (uint64_t i = heap_pages; i < wanted; i++)
        heap[i] = (struct page){PROT_READ | PROT_WRITE, 0, 0};
    heap_pages = wanted;
    if (wanted == 0)
        return;
    uint64_t page = next(wanted);
    touch(heap_start + page * PAGE, &heap[page], page);
    ship(heap_start + page * PAGE, &heap[page], page);
}

static void look_at_all(void)
{
    strcpy(doing, "all pages");
    for (uint64_t i = 0; i < PAGES; i++)
        if (readable(&pages[i]))
            look_at(address(i), &pages[i], i);
    for (uint64_t i = 0; i < heap_pages; i++)
        look_at(heap_start + i * PAGE, &heap[i], i);
}

static void look_at_maps(void)
{
    static uint8_t shown[PAGES];
    static char text[1 << 18];
    size_t length = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY);
    strcpy(doing, "/proc/self/maps");
    while ((got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = 0;
    memset(shown, 0, sizeof shown);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        unsigned long from, to;
        char may[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, may) != 3 || from < (unsigned long)BASE || to > (unsigned long)address(PAGES))
            continue;
        int way = may[1] == 'w' ? 2 : may[0] == 'r'; // what can be written can be read on x86, too
        memset(shown + (from - (unsigned long)BASE) / PAGE, way, (to - from) / PAGE);
    }
    for (uint64_t i = 0; i < PAGES; i++)
        expect("what is shown of it", i, writable(&pages[i]) ? 2 : readable(&pages[i]), shown[i]);
}

static void operate(void)
{
    struct range range = any_range();
    uint64_t page = next(PAGES);
    switch (next(16)) {
    case 0: case 1: do_mmap(range); break;
    case 2: do_munmap(range); break;
    case 3: case 4: do_mprotect(range); break;
    case 5: do_madvise(range); break;
    case 6: do_look(range); break;
    case 7: case 8: do_mremap(range); break;
    case 9: do_brk(); break;
    case 10: ship(address(page), &pages[page], page); break;
    default: // what is touched is often what was just changed
        strcpy(doing + strlen(doing), ", then touched");
        for (uint64_t i = 0; i < 8; i++, page = range.first + next(range.count))
            touch(address(page), &pages[page], page);
        doing[0] = 0;
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    struct sigaction action = {.sa_sigaction = met, .sa_flags = SA_SIGINFO | SA_NODEFER};
    state = seed * 2 + 1;
    setvbuf(stdout, line, _IOLBF, sizeof line);
    expect("sigaction", 0, 0, sigaction(SIGSEGV, &action, NULL));
    expect("pipe", 0, 0, pipe(ends));
    for (int i = 0; i < PAGES; i++)
        pages[i].prot = NONE;
    heap_start = (char *)((syscall(SYS_brk, 0) + PAGE - 1) & -PAGE);
    for (done = 0; done < count; done++) {
        operate();
        if (done % LOOK_EVERY == LOOK_EVERY - 1) {
            look_at_all();
            look_at_maps();
        }
    }
    printf("%llu operations, digest %llx\n", (unsigned long long)count, (unsigned long long)digest);
    return 0;
}
