// /proc/self/maps: access, offset, device, inode and name of what the program can check itself.
#include "../common/check.h"
#include <limits.h>
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

static int shows(const void *address, const char *access, const char *name)
{
    struct line line;
    int found = line_of(address, &line);
    int ok = found && strcmp(line.access, access) == 0 && strcmp(line.name, name) == 0;
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
    munmap(pages, 8 * PAGE_BYTES);
    check(!line_of(pages, &line), "unmapped memory has no line");
    FILE *self = fopen(program, "r");
    need(self != NULL, "open the program");
    char *view = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, fileno(self), PAGE_BYTES);
    need(view != MAP_FAILED, "map the program");
    check(shows(view, "r--p", program) && line_of(view, &line) && line.offset == PAGE_BYTES, "a file from an offset on");
    over_others(view, program);
    return check_done();
}
