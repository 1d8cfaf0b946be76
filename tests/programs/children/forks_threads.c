// Forks of programs with threads: `forks_threads CASE`. The child checks by its
// exit status: only the parent prints.
#include "../common/children.h"
#include "../common/proc.h"

#include <fcntl.h>
#include <sys/stat.h>

static __thread int own = 1;
static atomic_int go_on, prepared, after_parent;
static void *compute(void *arg)
{
    while (!go_on)
        free(malloc(100));
    return arg;
}
static void prepare(void) { prepared++; }
static void in_parent(void) { after_parent++; }
static int in_child_count;
static void in_child_handler(void) { in_child_count++; }

static int one_thread(void)
{
    int threads = atoi(proc_line("/proc/self/status", "Threads:"));
    if (threads != 1 || own != 7 || in_child_count != 1)
        return 1;
    own = 8;
    // The child starts threads of its own.
    go_on = 1;
    return joined(start(compute, NULL)) != NULL;
}

static void *fork_here(void *arg)
{
    own = 7;
    *(int *)arg = in_child(one_thread);
    return NULL;
}

static void from_thread(void)
{
    int status = -1;
    pthread_t busy[3];
    pthread_atfork(prepare, in_parent, in_child_handler);
    for (int i = 0; i < 3; i++)
        busy[i] = start(compute, NULL);
    joined(start(fork_here, &status));
    check(status == 0, "a child has the thread that forked, and no other");
    check(prepared == 1 && after_parent == 1, "with its handlers run");
    go_on = 1;
    for (int i = 0; i < 3; i++)
        joined(busy[i]);
}

static volatile int raw_status = -1;
static void fork_without_handlers(int signo)
{
    int status;
    pid_t pid = _Fork();
    if (pid == 0)
        _exit(signo + in_child_count);
    raw_status = waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : -2;
}

// _Fork may be called in handlers of signals, for it runs none of pthread_atfork.
static void without_handlers(void)
{
    pthread_atfork(prepare, in_parent, in_child_handler);
    catch_signal(SIGUSR1, fork_without_handlers, 0);
    pthread_t busy = start(compute, NULL);
    raise(SIGUSR1);
    check(raw_status == SIGUSR1, "_Fork in a handler");
    check(prepared == 0 && after_parent == 0, "runs no handler of forks");
    go_on = 1;
    joined(busy);
}

static void *fork_often(void *arg)
{
    for (int i = 0; i < 5; i++) {
        int status;
        pid_t pid = forked();
        if (pid == 0)
            _exit(i);
        if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != i)
            *(int *)arg = 1;
    }
    return NULL;
}

static void from_threads(void)
{
    pthread_t threads[4];
    int failed = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = start(fork_often, &failed);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    check(!failed, "threads fork and wait at the same time");
}

static char fifo[] = "fifo";
static void *open_fifo(void *arg)
{
    *(int *)arg = open(fifo, O_RDONLY);
    return NULL;
}
static int nothing(void) { return 0; }

// A fork does not wait for what another thread waits for.
static void beside_blocked(void)
{
    int opened = -1, byte_pipe[2];
    char byte;
    need(mkfifo(fifo, 0600) == 0 && pipe(byte_pipe) == 0, "fifo");
    pthread_t opener = start(open_fifo, &opened);
    for (int i = 0; i < 20; i++)
        need(in_child(nothing) == 0, "fork");
    check(1, "forks beside a thread that blocks in open");
    int writer = open(fifo, O_WRONLY);
    joined(opener);
    check(opened >= 0 && writer >= 0 && write(writer, "z", 1) == 1 && read(opened, &byte, 1) == 1, "which goes on");
    unlink(fifo);
}

static atomic_int stop_mapping;
static void *map_and_unmap(void *arg)
{
    while (!stop_mapping) {
        char *at = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(at, 1, 64 << 10);
        munmap(at, 64 << 10);
    }
    return arg;
}

static void beside_unmapping(void)
{
    pthread_t mapper = start(map_and_unmap, NULL);
    int failed = 0;
    for (int i = 0; i < 20; i++)
        failed += in_child(nothing) != 0;
    stop_mapping = 1;
    joined(mapper);
    check(failed == 0, "forks beside a thread that maps and unmaps");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(from_thread), CASE(without_handlers), CASE(from_threads), CASE(beside_blocked), CASE(beside_unmapping),
    };
    return RUN_CASES(cases);
}
