// What a program is told of the memory that it has given back: it is in use no more at once, and what it once had stays in
// VmPeak and VmHWM.
//
//   given_back resident | peaks | free
//
// "free" looks at the memory of the machine, and runs on a node only: natively others use it too, and Linux keeps lists of
// free pages that it does not count.
#include "../common/proc.h"
#include <sys/mman.h>
#include <sys/sysinfo.h>

// "About" is within an eighth of what is given back: page tables may count, and Linux's counters lag behind its pages.
enum { BYTES = 32 << 20, ABOUT = BYTES / 8 };
enum { ACCESS = PROT_READ | PROT_WRITE, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };

static long resident_bytes(void)
{
    return status_bytes("VmRSS:");
}

static long used_bytes(void)
{
    struct sysinfo info;
    need(sysinfo(&info) == 0, "sysinfo");
    return (long)((info.totalram - info.freeram) * info.mem_unit);
}

static char *mapped(size_t bytes)
{
    char *at = mmap(NULL, bytes, ACCESS, ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    memset(at, 1, bytes);
    return at;
}

static char *from_heap(size_t bytes)
{
    char *at = sbrk(bytes);
    need(at != (char *)-1, "sbrk");
    memset(at, 1, bytes);
    return at;
}

static void unmap(char *at)
{
    need(munmap(at, BYTES) == 0, "munmap");
}

static void unmap_page_by_page(char *at)
{
    for (size_t i = 0; i < BYTES; i += PAGE_BYTES)
        need(munmap(at + i, PAGE_BYTES) == 0, "munmap");
}

static void shorten(char *at)
{
    need(mremap(at, BYTES, PAGE_BYTES, 0) == at, "mremap");
}

static void reserve(char *at)
{
    need(mmap(at, BYTES, PROT_NONE, ANONYMOUS | MAP_FIXED, -1, 0) == at, "mmap");
}

static void lower_break(char *at)
{
    need(brk(at) == 0, "brk");
}

static const struct way {
    const char *name;
    char *(*take)(size_t bytes);
    void (*give_back)(char *at);
} ways[] = {
    {"munmap", mapped, unmap},
    {"munmap of each page", mapped, unmap_page_by_page},
    {"mremap", mapped, shorten},
    {"mmap in its place", mapped, reserve},
    {"brk", from_heap, lower_break},
};

// What `used` says grows by what is taken, and falls by what is given back.
static void falls(long (*used)(void))
{
    used(); // What the C library needs for it.
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const struct way *way = &ways[i];
        long before = used();
        char *at = way->take(BYTES);
        long with = used();
        way->give_back(at);
        long after = used();
        int ok = labs(with - before - BYTES) <= ABOUT && labs(after - before) <= ABOUT;
        if (!check(ok, "%s gives memory back", way->name))
            printf("     %ld bytes before, %ld with it, %ld after\n", before, with, after);
    }
}

// What ranks of a node may share is mapped, but not of a rank's own memory: of all peaks only VmPeak has it.
static void shared(void)
{
    char *at = mmap(NULL, BYTES, ACCESS, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "shared memory");
    long peak = status_bytes("VmPeak:");
    check(peak >= BYTES, "VmPeak has shared memory");
    unmap(at);
    check(status_bytes("VmPeak:") >= peak, "VmPeak does not fall when it goes");
}

// Later and smaller mappings lower nothing.
static void peaks(void)
{
    unmap(mapped(BYTES));
    long peak = status_bytes("VmPeak:"), high = status_bytes("VmHWM:");
    check(peak >= status_bytes("VmSize:") + BYTES - ABOUT, "VmPeak has what was mapped between two looks");
    check(high >= resident_bytes() + BYTES - ABOUT, "VmHWM too");
    munmap(mapped(BYTES / 4), BYTES / 4);
    check(status_bytes("VmPeak:") >= peak, "VmPeak never falls");
    check(status_bytes("VmHWM:") + ABOUT >= high, "nor does VmHWM");
}

// Memory that was given back and taken again was never there twice.
static void again(void)
{
    for (int i = 0; i < 4; i++)
        unmap(mapped(BYTES));
    check(status_bytes("VmHWM:") <= resident_bytes() + BYTES + ABOUT, "VmHWM has it once");
    check(status_bytes("VmPeak:") <= status_bytes("VmSize:") + BYTES + ABOUT, "VmPeak too");
}

int main(int argc, char **argv)
{
    need(argc == 2, "a case");
    if (strcmp(argv[1], "resident") == 0)
        falls(resident_bytes);
    else if (strcmp(argv[1], "free") == 0)
        falls(used_bytes);
    else
        shared(), again(), peaks();
    return check_done();
}
