// /proc/self/maps: access, offset, device, inode and name of what the program can check itself, by its lines and by questions.
#include "../common/check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct line {
    unsigned long start, end, offset, inode;
    unsigned major, minor;
    char access[5], name[PATH_MAX];
};

static int initialised = 1;

// The line that an address lies in; 0 when there is none.
static int line_of(const void *address, struct line *line)
{
    static char text[PATH_MAX + 100];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long at = (unsigned long)address;
    need(maps != NULL, "open maps");
    memset(line, 0, sizeof *line);
    while (fgets(text, sizeof text, maps)) {
        line->name[0] = '\0';
        int n = sscanf(text, "%lx-%lx %4s %lx %x:%x %lu %4095[^\n]", &line->start, &line->end, line->access, &line->offset,
                       &line->major, &line->minor, &line->inode, line->name);
        need(n >= 7, "a line as proc(5) has it");
        if (line->start <= at && at < line->end) {
            fclose(maps);
            return 1;
        }
    }
    fclose(maps);
    return 0;
}

// Linux names the file that is behind shared memory: NULL is any name.
static int shows(const void *address, const char *access, const char *name)
{
    struct line line;
    int found = line_of(address, &line);
    int ok = found && strcmp(line.access, access) == 0 && (name == NULL || strcmp(line.name, name) == 0);
    if (!ok)
        printf("     %d: %s '%s'\n", found, line.access, line.name);
    return ok;
}

// What takes the place of a mapping has not its name; `view` is a page of the program's file. (docs/differences.md: what moved has none.)
static void over_others(char *view, const char *program)
{
    enum { PAGES = 4 };
    struct line line;
    char *place = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at = place + PAGE_BYTES;
    need(place != MAP_FAILED, "mmap");
    need(mremap(view, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at, "mremap");
    check(shows(place, "rw-p", "") && shows(at + PAGE_BYTES, "rw-p", "") && !line_of(view, &line), "its neighbours, and where it was");
    int segment = shmget(IPC_PRIVATE, PAGE_BYTES, 0600);
    need(segment >= 0 && shmat(segment, at, SHM_REMAP) == at, "shmat");
    check(line_of(at, &line) && strcmp(line.access, "rw-s") == 0 && strcmp(line.name, program) != 0, "a segment, not the file");
    need(shmctl(segment, IPC_RMID, NULL) == 0 && shmdt(at) == 0, "shmdt");
    check(!line_of(at, &line), "and nothing when it has gone");
    need(mmap(at, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at, "mmap");
    check(shows(at, "r--p", ""), "what is mapped there then has no name");
}

static char *reserve(int flags)
{
    char *pages = mmap(NULL, 8 * PAGE_BYTES, PROT_NONE, flags | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED, "reserve addresses");
    return pages;
}

static void reservations(void)
{
    struct line line;
    char *pages = reserve(MAP_PRIVATE), *shared = reserve(MAP_SHARED);
    check(shows(pages, "---p", "") && shows(shared, "---s", NULL), "reserved addresses have lines");
    mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE);
    check(shows(pages, "---p", "") && shows(pages + PAGE_BYTES, "rw-p", "") && shows(pages + 2 * PAGE_BYTES, "---p", ""),
          "what gets an access there has its own");
    mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE);
    check(shows(pages + PAGE_BYTES, "---p", "") && line_of(pages, &line) && line.end >= (uintptr_t)pages + 8 * PAGE_BYTES,
          "until it loses it");
    mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_WRITE);
    check(shows(pages + PAGE_BYTES, "-w-p", ""), "memory that is only written");
    munmap(pages + 3 * PAGE_BYTES, PAGE_BYTES);
    check(!line_of(pages + 3 * PAGE_BYTES, &line) && shows(pages + 4 * PAGE_BYTES, "---p", ""), "a hole has none");
    need(mmap(shared, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == shared, "reserve again");
    need(mmap(shared + PAGE_BYTES, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED, "map");
    check(shows(shared, "---p", "") && shows(shared + PAGE_BYTES, "r--p", "") && shows(shared + 2 * PAGE_BYTES, "---s", NULL),
          "what is mapped over it");
    need(mmap(shared, PAGE_BYTES, PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == shared, "share");
    check(shows(shared, "-w-s", NULL), "also that is only written");
    char *moved = mremap(pages + 4 * PAGE_BYTES, PAGE_BYTES, 2 * PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, shared + 4 * PAGE_BYTES);
    check(moved == shared + 4 * PAGE_BYTES && shows(moved, "---p", "") && shows(moved + PAGE_BYTES, "---p", "") &&
              shows(moved + 2 * PAGE_BYTES, "---s", NULL) && !line_of(pages + 4 * PAGE_BYTES, &line),
          "it moves");
    int file = open("/proc/self/exe", O_RDONLY);
    char *view = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_SHARED, file, 0);
    need(file >= 0 && view != MAP_FAILED, "map a file");
    check(shows(view, "---s", NULL), "a file, too");
    close(file);
}

// struct procmap_query of linux/fs.h: newer than the headers.
struct query {
    uint64_t size, flags, addr, start, end, access, page_bytes, offset, inode;
    uint32_t major, minor, name_bytes, build_id_bytes;
    char *name;
    uint64_t build_id;
};
enum { PROCMAP_QUERY_ = (int)_IOWR('f', 17, struct query), READABLE = 1, WRITABLE = 2, EXECUTABLE = 4, OR_NEXT = 16, OF_FILE = 32 };

static int asked(int maps, struct query *query, const void *address, uint64_t flags)
{
    query->size = sizeof *query;
    query->addr = (uint64_t)(uintptr_t)address;
    query->flags = flags;
    return ioctl(maps, (unsigned)PROCMAP_QUERY_, query);
}

// Questions about what is mapped at `view`, a page of the program's file that is only read, with a hole behind it.
static void queries(const char *view, const char *program)
{
    static char name[PATH_MAX];
    struct line line;
    struct query query = {0};
    int maps = open("/proc/self/maps", O_RDONLY), other = open("/proc/self/status", O_RDONLY);
    need(maps >= 0 && other >= 0 && line_of(view, &line), "open maps");
    check(asked(maps, &query, view + 5, 0) == 0 && query.start == line.start && query.end == line.end && query.access == READABLE &&
              query.offset == line.offset && query.inode == line.inode && query.major == line.major && query.minor == line.minor &&
              query.page_bytes == PAGE_BYTES,
          "a question is answered as the line says");
    query.name = name;
    query.name_bytes = sizeof name;
    check(asked(maps, &query, view, READABLE | OF_FILE) == 0 && query.name_bytes == strlen(program) + 1 && strcmp(name, program) == 0,
          "with its name");
    query.name_bytes = 2;
    check_fails(asked(maps, &query, view, 0), ENAMETOOLONG, "if that fits");
    query.name_bytes = sizeof name;
    query.name = (char *)view;
    check_fails(asked(maps, &query, view, 0), EFAULT, "where it may be written");
    query.name_bytes = 0;
    check_fails(asked(maps, &query, view, 0), EINVAL, "room for a name has a length");
    query.name = NULL;
    check_fails(asked(maps, &query, view, WRITABLE), ENOENT, "not one of another access");
    check_fails(asked(maps, &query, view + PAGE_BYTES, 0), ENOENT, "nor where nothing is mapped");
    check(asked(maps, &query, view + PAGE_BYTES, OR_NEXT) == 0 && query.start > (uint64_t)(uintptr_t)view + PAGE_BYTES, "but the next one");
    check(asked(maps, &query, view, OR_NEXT | WRITABLE) == 0 && (query.access & WRITABLE) != 0, "or the next of that access");
    check_fails(asked(maps, &query, (void *)-PAGE_BYTES, OR_NEXT), ENOENT, "of which there is a last");
    check_fails(asked(maps, &query, view, 64), EINVAL, "flags that nobody knows");
    query.size = 16;
    check_fails(ioctl(maps, (unsigned)PROCMAP_QUERY_, &query), EINVAL, "too short a question");
    query.size = PAGE_BYTES + 1;
    check_fails(ioctl(maps, (unsigned)PROCMAP_QUERY_, &query), E2BIG, "one that is too long");
    check_fails(ioctl(maps, (unsigned)PROCMAP_QUERY_, NULL), EFAULT, "none");
    check_fails(asked(other, &query, view, 0), ENOTTY, "other files answer none");
    close(maps);
    check_fails(asked(maps, &query, view, 0), EBADF, "nor does a closed one");
    close(other);
}

int main(void)
{
    static char program[PATH_MAX];
    struct stat file;
    struct line line;
    int local = 0;
    need(readlink("/proc/self/exe", program, sizeof program - 1) > 0 && stat(program, &file) == 0, "the program's file");
    check(shows((void *)(uintptr_t)main, "r-xp", program), "code is executable and of the program's file");
    check(line_of((void *)(uintptr_t)main, &line) && line.inode == file.st_ino && line.major == major(file.st_dev) &&
              line.minor == minor(file.st_dev),
          "device and inode are the file's");
    check(shows(&initialised, "rw-p", program), "so is data, writable");
    char *heap = sbrk(4 * PAGE_BYTES);
    check(shows(heap + 2 * PAGE_BYTES, "rw-p", "[heap]"), "the heap");
    check(shows(&local, "rw-p", "[stack]"), "the stack");
    char *pages = mmap(NULL, 8 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED, "mmap");
    check(shows(pages + 4 * PAGE_BYTES, "rw-p", ""), "anonymous memory has no name");
    mprotect(pages + 4 * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_EXEC);
    check(shows(pages + 4 * PAGE_BYTES, "r-xp", ""), "made executable");
    check(shows(pages + 3 * PAGE_BYTES, "rw-p", "") && shows(pages + 5 * PAGE_BYTES, "rw-p", ""), "but not its neighbours");
    mprotect(pages + 4 * PAGE_BYTES, PAGE_BYTES, PROT_READ);
    check(shows(pages + 4 * PAGE_BYTES, "r--p", ""), "and not any more");
    // Once what is mapped without access had no lines.
    mprotect(pages + 4 * PAGE_BYTES, 2 * PAGE_BYTES, PROT_NONE);
    check(shows(pages + 5 * PAGE_BYTES, "---p", "") && shows(pages + 6 * PAGE_BYTES, "rw-p", ""), "nor to be read");
    munmap(pages, 8 * PAGE_BYTES);
    check(!line_of(pages, &line) && !line_of(pages + 4 * PAGE_BYTES, &line), "unmapped memory has no line");
    reservations();
    FILE *self = fopen(program, "r");
    need(self != NULL, "open the program");
    char *view = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_PRIVATE, fileno(self), PAGE_BYTES);
    need(view != MAP_FAILED && munmap(view + PAGE_BYTES, PAGE_BYTES) == 0, "map the program");
    check(shows(view, "r--p", program) && line_of(view, &line) && line.offset == PAGE_BYTES, "a file from an offset on");
    queries(view, program);
    over_others(view, program);
    return check_done();
}
