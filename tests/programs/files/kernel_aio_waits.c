// Waits for results of kernel AIO: ended by a request of another thread, by the context's end, and by signals, which end reads that
// are submitted as well, whatever their handlers say of restarting.
#include "../common/parallel.h"
#include "../common/proc.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/time.h>

static aio_context_t context;
static atomic_int waiter, ticks;

static long events(struct io_event *to) { return syscall(SYS_io_getevents, context, 1, 1, to, NULL); }

// Submits a read of one byte.
static long submit(struct iocb *one, int fd, char *to)
{
    memset(one, 0, sizeof *one);
    one->aio_lio_opcode = IOCB_CMD_PREAD;
    one->aio_fildes = (uint32_t)fd;
    one->aio_buf = (uintptr_t)to;
    one->aio_nbytes = 1;
    return syscall(SYS_io_submit, context, 1, &one);
}

struct waited {
    long got;
    int error;
    struct io_event event;
};

static void *wait_for_one(void *arg)
{
    struct waited *it = arg;
    waiter = own_tid();
    it->got = events(&it->event);
    it->error = errno;
    return arg;
}

// Once it has said who it is, it sleeps nowhere but in the call. Margay says so of each thread that Linux does nothing for; on the core
// that it shares with this one it has had several turns.
static pthread_t start_waiter(struct waited *it)
{
    enum { TURNS = 10 };
    char path[64];
    waiter = 0;
    pthread_t thread = start(wait_for_one, it);
    AWAIT(waiter != 0);
    snprintf(path, sizeof path, "/proc/self/task/%d/status", waiter);
    for (int turns = 0; turns < TURNS; sched_yield())
        turns = *proc_line(path, "State:\t") == 'S' ? turns + 1 : 0;
    return thread;
}

static void for_another_thread(int fd)
{
    struct waited it = {0};
    struct iocb one;
    char byte = 0;
    pthread_t thread = start_waiter(&it);
    check(submit(&one, fd, &byte) == 1, "a read while another thread waits");
    joined(thread);
    check(it.got == 1 && it.event.obj == (uintptr_t)&one && it.event.res == 1 && byte == 'x', "it gets the result");
}

static void for_a_context_that_goes(void)
{
    struct waited it = {0};
    pthread_t thread = start_waiter(&it);
    check(syscall(SYS_io_destroy, context) == 0, "the context is destroyed while a thread waits");
    joined(thread);
    check(it.got == -1 && it.error == EINVAL, "its wait ends");
}

static void on_tick(int signo)
{
    (void)signo;
    ticks++;
}

static void interrupted(void)
{
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct io_event got = {0, 0, 0, 0};
    struct iocb one;
    char byte;
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    catch_signal(SIGALRM, on_tick, SA_RESTART);
    need(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    check_fails(events(&got), EINTR, "a wait that a signal ends");
    check(ticks > 0, "whose handler has run");
    check(submit(&one, ends[0], &byte) == 1, "a read of an empty pipe");
    need(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
    check(events(&got) == 1 && got.res == -EINTR, "ends with it, too");
}

int main(void)
{
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && write(fd, "x", 1) == 1 && syscall(SYS_io_setup, 16, &context) == 0, "a file and a context");
    for_another_thread(fd);
    interrupted();
    for_a_context_that_goes();
    unlink("file");
    return check_done();
}
