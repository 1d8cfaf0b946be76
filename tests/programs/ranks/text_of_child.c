// A child maps the text that its parent had: for as long as it does, the frames hold nothing else, whatever the
// parent maps meanwhile. Runs on a node only, with --shared-memory 8M.
#include "../common/settle.h"
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

// Of the pool half is for text: of this program 0.7 MiB, and one of the files.
enum { ROUNDS = 6, BYTES = 5 << 19 };

static const char *const names[] = {"child's", "first", "second"};

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

static char *map(const char *name)
{
    int fd = open(name, O_RDONLY);
    char *p = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    need(p != MAP_FAILED && all_bytes(p, name[0], BYTES), name);
    close(fd);
    return p;
}

int main(void)
{
    int go_on[2], status;
    char byte = 0;

    for (int i = 0; i < 3; i++)
        make(names[i]);
    settle(names[2]);
    char *text = map(names[0]);
    need(pipe(go_on) == 0, "pipe");
    pid_t child = forked();
    if (child == 0) {
        need(read(go_on[0], &byte, 1) == 1, "read");
        _exit(!all_bytes(text, names[0][0], BYTES));
    }
    munmap(text, BYTES);
    int in_pool = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t before = free_bytes();
        char *p = map(names[1 + round % 2]);
        in_pool += before - free_bytes() < BYTES / 2;
        munmap(p, BYTES);
    }
    check(in_pool >= ROUNDS / 2, "of %d files %d were in the pool", ROUNDS, in_pool);
    need(write(go_on[1], &byte, 1) == 1, "write");
    need(waitpid(child, &status, 0) == child, "waitpid");
    check(status == 0, "the child finds something else in its text: %#x", status);
    return check_done();
}
