// Files of /proc/self that speak of the same memory agree: each mapping of maps is in smaps and in numa_maps, and what smaps
// has in memory is what smaps_rollup, status and statm have. Page tables may count, text that ranks share may not,
// and Linux's counters lag behind its pages: "about" is within an eighth of what is used here.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { USED_KB = 32 << 10, ABOUT_KB = USED_KB / 8, MOST_MAPPINGS = 100 };

struct mapping {
    unsigned long start, size_kb, rss_kb;
};
struct mappings {
    int count;
    unsigned long size_kb, rss_kb;
    struct mapping all[MOST_MAPPINGS];
};
static struct mappings in_maps, in_smaps, in_numa_maps;
static char text[256 << 10];

// A file's text; 0 where Linux has none. Nothing is mapped to read it.
static int read_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT)
        return 0;
    need(fd >= 0, path);
    size_t len = read_full(fd, text, sizeof text - 1);
    need(len > 0 && len < sizeof text - 1, "a text that fits");
    text[len] = '\0';
    close(fd);
    return 1;
}

// What a line in the text says that begins with this name.
static unsigned long number(const char *name)
{
    const char *line = strstr(text, name);
    need(line != NULL, name);
    return strtoul(line + strlen(name), NULL, 10);
}

// What a line of numa_maps has on all memory nodes.
static unsigned long on_nodes_kb(const char *line)
{
    unsigned long pages, sum = 0;
    while ((line = strstr(line, " N")) != NULL)
        sum += sscanf(line++, " N%*u=%lu", &pages) == 1 ? pages : 0;
    return sum * (PAGE_BYTES / 1024);
}

// Reads a file of mappings. The vsyscall page is in maps and smaps, but is nobody's memory.
static void read_mappings(struct mappings *to, const char *path, int by_nodes)
{
    struct mapping beside, *last = &beside;
    to->count = 0;
    to->size_kb = to->rss_kb = 0;
    need(read_file(path), path);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        unsigned long start, end, kb;
        if (by_nodes ? sscanf(line, "%lx", &start) == 1 : sscanf(line, "%lx-%lx", &start, &end) == 2) {
            need(to->count < MOST_MAPPINGS, "few mappings");
            last = strstr(line, "[vsyscall]") ? &beside : &to->all[to->count++];
            last->start = start;
            last->rss_kb = by_nodes ? on_nodes_kb(line) : 0;
        } else if (sscanf(line, "Size: %lu", &kb) == 1) {
            last->size_kb = kb;
            to->size_kb += kb;
        } else if (sscanf(line, "Rss: %lu", &kb) == 1) {
            last->rss_kb = kb;
            to->rss_kb += kb;
        }
    }
}

static int about(unsigned long a_kb, unsigned long b_kb)
{
    int ok = (a_kb > b_kb ? a_kb - b_kb : b_kb - a_kb) <= ABOUT_KB;
    if (!ok)
        printf("     %lu kB, %lu kB\n", a_kb, b_kb);
    return ok;
}

static int are_those_of_maps(const struct mappings *other)
{
    int same = other->count == in_maps.count && in_maps.count > 0;
    for (int i = 0; same && i < in_maps.count; i++)
        same = other->all[i].start == in_maps.all[i].start;
    if (!same)
        printf("     %d mappings, %d in maps\n", other->count, in_maps.count);
    return same;
}

static unsigned long rss_at(const struct mappings *mappings, const void *address)
{
    for (int i = 0; i < mappings->count; i++)
        if (mappings->all[i].start == (uintptr_t)address)
            return mappings->all[i].rss_kb;
    return 0;
}

struct status {
    unsigned long peak_kb, size_kb, high_kb, rss_kb;
};

static struct status read_status(void)
{
    need(read_file("/proc/self/status"), "status");
    return (struct status){number("\nVmPeak:"), number("\nVmSize:"), number("\nVmHWM:"), number("\nVmRSS:")};
}

static struct status agree(void)
{
    unsigned long size_pages, rss_pages;
    read_mappings(&in_maps, "/proc/self/maps", 0);
    read_mappings(&in_smaps, "/proc/self/smaps", 0);
    check(are_those_of_maps(&in_smaps), "smaps has the mappings of maps");
    struct status now = read_status();
    check(now.peak_kb >= now.size_kb && now.size_kb >= now.rss_kb, "VmPeak, VmSize and VmRSS get less");
    check(now.peak_kb >= now.high_kb && now.high_kb >= now.rss_kb, "VmPeak, VmHWM and VmRSS too");
    check(number("\nRssAnon:") + number("\nRssFile:") + number("\nRssShmem:") == now.rss_kb, "VmRSS has three parts");
    check(about(in_smaps.size_kb, now.size_kb), "VmSize is about the sizes in smaps");
    check(about(in_smaps.rss_kb, now.rss_kb), "VmRSS is about what smaps has in memory");
    if (read_file("/proc/self/smaps_rollup"))
        check(about(in_smaps.rss_kb, number("\nRss:")), "smaps_rollup has about the sum");
    need(read_file("/proc/self/statm") && sscanf(text, "%lu %lu", &size_pages, &rss_pages) == 2, "statm");
    check(about(size_pages * (PAGE_BYTES / 1024), now.size_kb), "statm has about VmSize");
    check(about(rss_pages * (PAGE_BYTES / 1024), now.rss_kb), "statm has about VmRSS");
    if (access("/proc/self/numa_maps", F_OK) == 0) {
        read_mappings(&in_numa_maps, "/proc/self/numa_maps", 1);
        check(are_those_of_maps(&in_numa_maps), "numa_maps has the mappings of maps");
    }
    return now;
}

int main(void)
{
    // Between two that nothing joins to it.
    enum { GUARD = PAGE_BYTES };
    char *reserved = mmap(NULL, (USED_KB << 10) + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(reserved != MAP_FAILED, "mmap");
    char *used = reserved + GUARD;
    struct status before = agree();
    need(mprotect(used, USED_KB << 10, PROT_READ | PROT_WRITE) == 0, "mprotect");
    memset(used, 1, USED_KB << 10);
    struct status with = agree();
    check(about(rss_at(&in_smaps, used), USED_KB), "smaps has what was written");
    check(in_numa_maps.count == 0 || about(rss_at(&in_numa_maps, used), USED_KB), "numa_maps has what was written");
    check(about(with.rss_kb, before.rss_kb + USED_KB), "VmRSS has grown by that");
    munmap(reserved, (USED_KB << 10) + 2 * GUARD);
    struct status after = read_status();
    check(after.high_kb + ABOUT_KB >= with.rss_kb && after.peak_kb + ABOUT_KB >= with.size_kb, "VmHWM and VmPeak stay");
    unsigned long with_kb = in_smaps.rss_kb;
    read_mappings(&in_smaps, "/proc/self/smaps", 0);
    check(about(in_smaps.rss_kb + USED_KB, with_kb), "smaps has it no more");
    return check_done();
}
