// Programs in turn, each with a text of its own, in a node whose pool has room
// for one of them: a rank that becomes another program lets go of the text of
// the last. Runs on a node only, with --shared-memory 8M.
//
//   text_turns [ROUND]
#include "../common/settle.h"
#include <sys/mman.h>
#include <sys/sysinfo.h>

// Of the pool half is for text: of this program 0.7 MiB, and one of the files.
enum { ROUNDS = 20, BYTES = 5 << 19 };

static const char *const names[] = {"first", "second"};

static void make(const char *name)
{
    static char bytes[BYTES];
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    memset(bytes, name[0], sizeof bytes);
    need(fd >= 0 && write_all(fd, bytes, sizeof bytes), name);
    close(fd);
}

static size_t free_bytes(void)
{
    struct sysinfo info;
    need(sysinfo(&info) == 0, "sysinfo");
    return info.freeram * info.mem_unit;
}

// Maps a file: how much memory of the rank's own that takes.
static size_t map(const char *name)
{
    size_t before = free_bytes();
    int fd = open(name, O_RDONLY);
    char *p = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    need(p != MAP_FAILED && all_bytes(p, name[0], BYTES), name);
    close(fd);
    return before - free_bytes();
}

int main(int argc, char **argv)
{
    int round = argc > 1 ? atoi(argv[1]) : 0;
    char next[16];
    if (round == 0)
        for (int i = 0; i < 2; i++)
            make(names[i]);
    settle(names[1]);
    size_t own = map(names[round % 2]);
    if (own >= BYTES / 2) {
        check(0, "round %d: the file takes %zu bytes of the rank's own", round, own);
        return check_done();
    }
    snprintf(next, sizeof next, "%d", round + 1);
    if (round < ROUNDS)
        execv("/proc/self/exe", (char *[]){argv[0], next, NULL});
    check(map(names[!(round % 2)]) >= BYTES, "with one mapped there is no room for the other, which is the rank's own");
    return check_done();
}
