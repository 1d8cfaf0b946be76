// What a child has of its parent and what it has not, and how it ends:
// `forks CASE`. The child checks by its exit status: only the parent prints.
#include "../common/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>

// ---- Status ----------------------------------------------------------------

static void status(void)
{
    const int codes[] = {0, 1, 77, 255};
    const int signals[] = {SIGHUP, SIGKILL, SIGSEGV, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        int status;
        pid_t pid = forked();
        if (pid == 0)
            _exit(codes[i]);
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == codes[i], "exit %d", codes[i]);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int status;
        pid_t pid = forked();
        if (pid == 0) {
            kill(getpid(), signals[i]);
            _exit(99);
        }
        check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == signals[i], "signal %d",
              signals[i]);
    }
    check_fails(waitpid(-1, NULL, 0), ECHILD, "wait without children");
}

// ---- Registers ---------------------------------------------------------------

// The call's number in, the result out; what is in the other registers must
// be there afterwards, in the child too.
static long fork_with_registers(long number, int *kept)
{
    long result;
    double in = 1.25, out = 0;
    uint32_t mxcsr = 0x5f80, mxcsr_after = 0, mxcsr_before;
    uint64_t r12, r13, r14, r15, rbx;
    asm volatile("stmxcsr %0" : "=m"(mxcsr_before));
    asm volatile("ldmxcsr %[mxcsr]\n\t"
                 "movsd %[in], %%xmm9\n\t"
                 "mov $0x1212, %%r12\n\t mov $0x1313, %%r13\n\t mov $0x1414, %%r14\n\t mov $0x1515, %%r15\n\t"
                 "mov $0xbbbb, %%rbx\n\t"
                 "syscall\n\t"
                 "movsd %%xmm9, %[out]\n\t"
                 "stmxcsr %[mxcsr_after]\n\t"
                 "mov %%r12, %[r12]\n\t mov %%r13, %[r13]\n\t mov %%r14, %[r14]\n\t mov %%r15, %[r15]\n\t"
                 "mov %%rbx, %[rbx]\n\t"
                 : "=a"(result), [out] "=m"(out), [mxcsr_after] "=m"(mxcsr_after), [r12] "=m"(r12), [r13] "=m"(r13),
                   [r14] "=m"(r14), [r15] "=m"(r15), [rbx] "=m"(rbx)
                 : "a"(number), [in] "m"(in), [mxcsr] "m"(mxcsr)
                 : "rcx", "r11", "r12", "r13", "r14", "r15", "rbx", "xmm9", "memory");
    asm volatile("ldmxcsr %0" : : "m"(mxcsr_before));
    *kept = out == in && mxcsr_after == mxcsr && r12 == 0x1212 && r13 == 0x1313 && r14 == 0x1414 && r15 == 0x1515 &&
            rbx == 0xbbbb;
    return result;
}

static void registers(void)
{
    int kept, status;
    long pid = fork_with_registers(SYS_fork, &kept);
    if (pid == 0)
        _exit(kept ? 0 : 1);
    check(pid > 0 && kept, "the parent keeps its registers");
    check(waitpid((pid_t)pid, &status, 0) == pid && status == 0, "the child has the parent's");
}

// ---- Identity ------------------------------------------------------------------

static pid_t parent;
static int look_at_ids(void)
{
    char name[16] = "", path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/%d", getpid());
    prctl(PR_GET_NAME, name);
    return !(getppid() == parent && own_tid() == getpid() && getpid() != parent && strcmp(name, "test-name") == 0 &&
             getpgrp() == getpgid(parent) && getsid(0) == getsid(parent) && access(path, F_OK) == 0 &&
             readlink("/proc/self", target, sizeof target - 1) > 0 && atoi(target) == getpid());
}

static void ids(void)
{
    parent = getpid();
    prctl(PR_SET_NAME, "test-name");
    IN_CHILD("the child is a process of its own", look_at_ids);
}

static int grandchild(void) { return in_child(look_at_ids) == 0 ? 1 : 0; }
static int deep(void)
{
    for (int depth = 0; depth < 5; depth++) {
        int status;
        pid_t pid = forked();
        if (pid > 0)
            return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 98;
    }
    return 42;
}

static void descendants(void)
{
    check(WEXITSTATUS(in_child(deep)) == 42, "children of children");
    IN_CHILD("a grandchild has another parent", grandchild);
}

// ---- Descriptors ---------------------------------------------------------------

// The numbers looked at: usual ones, and those where a proxy may have its own.
enum { USUAL = 64, HIGH = 65400, END = 65540 };
static char is_open[END];
static int next_number(int fd) { return fd + 1 == USUAL ? HIGH : fd + 1; }
static int file, ends[2];
static int use_descriptors(void)
{
    char text[4] = "";
    if (read(file, text, 3) != 3 || strcmp(text, "abc") != 0 || write(ends[1], "x", 1) != 1)
        return 1;
    close(ends[1]);
    // Nothing is open that the parent does not have.
    for (int fd = 0; fd < END; fd = next_number(fd))
        if (fd != ends[1] && is_open[fd] != (fcntl(fd, F_GETFD) != -1))
            return 2;
    return 0;
}

static void descriptors(void)
{
    char byte = 0;
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    need(file >= 0 && write(file, "abcdef", 6) == 6 && lseek(file, 0, SEEK_SET) == 0 && pipe(ends) == 0, "files");
    for (int fd = 0; fd < END; fd = next_number(fd))
        is_open[fd] = fcntl(fd, F_GETFD) != -1;
    IN_CHILD("the child has the parent's descriptors, and no others", use_descriptors);
    check(lseek(file, 0, SEEK_CUR) == 3, "with one position");
    check(read(ends[0], &byte, 1) == 1 && byte == 'x' && write(ends[1], "y", 1) == 1, "and a table of its own");
    unlink("file");
}

static int move_elsewhere(void) { return mkdir("below", 0755) != 0 || chdir("below") != 0 || umask(0) != 022; }

static void directory(void)
{
    umask(022);
    IN_CHILD("the child goes elsewhere", move_elsewhere);
    check(access("below", F_OK) == 0 && umask(022) == 022, "and takes nobody along");
    rmdir("below");
}

// ---- Signals -------------------------------------------------------------------

static volatile sig_atomic_t caught;
static char alternate[64 << 10];
static void note(int signo) { caught = signo; }

static int look_at_signals(void)
{
    struct sigaction action;
    sigset_t mask, pending;
    stack_t stack;
    struct itimerval timer;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    sigaltstack(NULL, &stack);
    getitimer(ITIMER_REAL, &timer);
    if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGUSR1))
        return 1;
    if (!sigisemptyset(&pending))
        return 2;
    if (stack.ss_sp != alternate || stack.ss_size != sizeof alternate || stack.ss_flags != 0)
        return 3;
    if (timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0)
        return 4;
    sigaction(SIGTERM, NULL, &action);
    if (action.sa_handler != SIG_IGN)
        return 5;
    sigaction(SIGUSR1, NULL, &action);
    if (action.sa_handler != note || (action.sa_flags & (SA_RESTART | SA_ONSTACK)) != (SA_RESTART | SA_ONSTACK) ||
        !sigismember(&action.sa_mask, SIGHUP))
        return 6;
    raise(SIGUSR1);
    if (caught != SIGUSR1)
        return 7;
    caught = 0;
    // An interval: a signal between the look and the wait is followed by another.
    timer.it_value.tv_usec = timer.it_interval.tv_usec = 20000;
    setitimer(ITIMER_REAL, &timer, NULL);
    while (caught != SIGALRM)
        pause();
    return 0;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK};
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct itimerval timer = {.it_value.tv_sec = 1000};
    sigset_t set;
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGUSR1, &action, NULL);
    catch_signal(SIGALRM, note, 0);
    signal(SIGTERM, SIG_IGN);
    sigaltstack(&stack, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR2);
    int status = in_child(look_at_signals);
    check(status == 0, "mask, actions and alternate stack are the parent's; nothing is pending, no timer runs");
    if (status != 0)
        printf("     status %#x\n", status);
}

static volatile sig_atomic_t handler_status = -1;
static void fork_in_handler(int signo)
{
    int status;
    pid_t pid = forked();
    if (pid == 0)
        _exit(signo);
    handler_status = waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : -2;
}

static void in_handler(void)
{
    catch_signal(SIGUSR1, fork_in_handler, 0);
    raise(SIGUSR1);
    check(handler_status == SIGUSR1, "fork in a handler");
}

// ---- Time ----------------------------------------------------------------------

static int64_t before;
static int look_at_clocks(void)
{
    struct timespec time;
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    return !(now >= before && clock_ns(CLOCK_MONOTONIC) >= now && clock_gettime(CLOCK_REALTIME, &time) == 0 &&
             time.tv_sec > 1600000000 && sched_getcpu() >= 0);
}

// The vDSO, whose clock page is the node's.
static void clocks(void)
{
    before = clock_ns(CLOCK_MONOTONIC);
    IN_CHILD("the clocks go on in a child", look_at_clocks);
}

// ---- Many ----------------------------------------------------------------------

static int nothing(void) { return 0; }
static long how_many = 50;
static void many(void)
{
    int failed = 0;
    for (long i = 0; i < how_many; i++)
        failed += in_child(nothing) != 0;
    check(failed == 0, "one after the other");
    check_fails(waitpid(-1, NULL, WNOHANG), ECHILD, "none is left");
}

static pid_t vfork_child(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    return pid;
}

static void many_vforks(void)
{
    int failed = 0;
    for (long i = 0; i < how_many; i++) {
        pid_t pid = vfork_child();
        failed += pid < 0 || status_of(pid) != 0;
    }
    check(failed == 0, "one after the other, with the parent's memory");
}

static void at_once(void)
{
    enum { CHILDREN = 20 };
    pid_t pids[CHILDREN];
    int gate[2], failed = 0;
    char byte;
    need(pipe(gate) == 0, "pipe");
    for (int i = 0; i < CHILDREN; i++) {
        pids[i] = forked();
        if (pids[i] == 0) {
            close(gate[1]);
            read(gate[0], &byte, 1);
            _exit(i);
        }
    }
    close(gate[1]);
    for (int i = CHILDREN - 1; i >= 0; i--) {
        int status;
        failed += waitpid(pids[i], &status, 0) != pids[i] || WEXITSTATUS(status) != i;
    }
    check(failed == 0, "many children at once, waited for in another order");
}

int main(int argc, char **argv)
{
    how_many = number_arg(argc, argv, 2, how_many);
    static const struct test_case cases[] = {
        CASE(status), CASE(registers), CASE(ids), CASE(descendants), CASE(descriptors), CASE(directory), CASE(signals),
        CASE(in_handler), CASE(clocks), CASE(many),
        CASE(many_vforks), CASE(at_once),
    };
    return RUN_CASES(cases);
}
