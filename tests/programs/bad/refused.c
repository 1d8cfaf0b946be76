// Requests what Margay refuses or limits, in the way its first argument names,
// and ends with the status that its second argument is.
#include "../common/check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

// A process that shares its parent's memory, which a child on Linux cannot.
static void process(void) { syscall(SYS_clone, CLONE_VM | SIGCHLD, 0, 0, 0, 0); }

static void memory(void)
{
    mmap(NULL, (size_t)1 << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// More of a file than the node has shared memory.
static void file(void)
{
    const size_t bytes = (size_t)1 << 30;
    FILE *made = tmpfile();
    check(made != NULL && ftruncate(fileno(made), (off_t)bytes) == 0, "a file");
    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(made), 0);
}

static void probe(void)
{
    syscall(SYS_perf_event_open, 0, 0, 0, 0, 0);
    syscall(SYS_userfaultfd, 0);
}

static void directories(void) { syscall(SYS_fanotify_init, 0, 0); }

static const struct {
    const char *name;
    void (*act)(void);
} ways[] = {{"process", process}, {"memory", memory}, {"file", file}, {"probe", probe}, {"directories", directories}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 2 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(argv[1], ways[i].name) != 0)
            continue;
        ways[i].act();
        return atoi(argv[2]);
    }
    return 2;
}
