// Children that misuse what they share with their parent, and forks where
// there is no room: `misused CASE`.
#include "../common/children.h"

#include <setjmp.h>
#include <spawn.h>
#include <sys/resource.h>

// ---- Memory that only one of the two has -----------------------------------------

static void unmapped(void)
{
    int gate[2];
    char *before = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *after = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    before[0] = after[0] = 'x';
    need(munmap(before, PAGE_BYTES) == 0 && pipe(gate) == 0, "munmap");
    pid_t pid = forked();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        read(gate[0], &byte, 1);
        _exit(after[0] != 'x');
    }
    need(munmap(after, PAGE_BYTES) == 0, "munmap");
    close(gate[1]);
    check(status_of(pid) == 0, "what the parent unmaps later the child has");
    pid = forked();
    if (pid == 0)
        _exit(before[0]);
    check(WTERMSIG(status_of(pid)) == SIGSEGV, "what it unmapped before not");
}

// ---- vfork ----------------------------------------------------------------------

__attribute__((noinline)) static int recurse(volatile char *above)
{
    volatile char here[4096];
    here[0] = above[0];
    return recurse(here) + here[1];
}

static void overflows(void)
{
    struct rlimit none = {0, 0};
    volatile char first[1] = {0};
    setrlimit(RLIMIT_CORE, &none);
    pid_t pid = vfork();
    if (pid == 0)
        _exit(recurse(first));
    check(WTERMSIG(status_of(pid)) == SIGSEGV, "a vfork child whose stack overflows");
}

static int told[2];
static void *kill_it(void *arg)
{
    pid_t pid;
    need(read(told[0], &pid, sizeof pid) == sizeof pid, "read");
    need(kill(pid, SIGKILL) == 0, "kill");
    return arg;
}

static void killed(void)
{
    need(pipe(told) == 0, "pipe");
    pthread_t killer = start(kill_it, NULL);
    pid_t pid = vfork();
    if (pid == 0) {
        pid_t self = (pid_t)syscall(SYS_getpid);
        syscall(SYS_write, told[1], &self, sizeof self);
        for (;;)
            syscall(SYS_pause);
    }
    check(WTERMSIG(status_of(pid)) == SIGKILL, "one that is killed before it calls exec");
    joined(killer);
}

// Ends the process without a store to the stack.
#define EXIT_NOW(code) asm volatile("syscall" : : "a"(SYS_exit_group), "D"(code) : "rcx", "r11", "memory")

__attribute__((noinline)) static pid_t vfork_and_return(void)
{
    pid_t pid = vfork();
    asm volatile("" : "+r"(pid)); // no jump in place of the call
    return pid;
}

static void returns(void)
{
    pid_t pid = vfork_and_return();
    if (pid == 0)
        EXIT_NOW(5);
    check(status_of(pid) == 5 << 8, "a vfork child that returns from the function that called vfork");
}

enum { LOCALS = 4000 };
static void stores(void)
{
    volatile int locals[LOCALS] = {0};
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < LOCALS; i++)
            locals[i] = i + 1;
        EXIT_NOW(6);
    }
    int wrong = 0;
    for (int i = 0; i < LOCALS; i++)
        wrong += locals[i] != i + 1;
    check(status_of(pid) == 6 << 8 && wrong == 0, "one that stores to the variables of its parent");
}

// The parent returns to where its child has said.
__attribute__((noinline)) static pid_t vfork_and_smash(void)
{
    void *volatile *frame = __builtin_frame_address(0);
    pid_t pid = vfork();
    if (pid == 0) {
        frame[1] = NULL;
        EXIT_NOW(7);
    }
    return pid;
}

static sigjmp_buf before_crash;
static void jump_back(int signo) { siglongjmp(before_crash, signo); }

static void smashes(void)
{
    stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    volatile int crashed = 0;
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    catch_signal(SIGSEGV, jump_back, SA_ONSTACK);
    if (sigsetjmp(before_crash, 1) == 0)
        vfork_and_smash();
    else
        crashed = 1;
    int status;
    check(waitpid(-1, &status, 0) > 0 && status == 7 << 8 && crashed, "one that stores to its parent's return address");
}

// ---- Beside threads that are blocked -----------------------------------------------

static void *read_forever(void *arg)
{
    char byte;
    return (void *)(intptr_t)read((int)(intptr_t)arg, &byte, 1);
}
static void *wait_forever(void *arg)
{
    return (void *)(intptr_t)waitpid((pid_t)(intptr_t)arg, NULL, 0);
}

static void beside_calls(void)
{
    int gate[2], failed = 0;
    need(pipe(gate) == 0, "pipe");
    pid_t last = forked();
    if (last == 0) {
        char byte;
        close(gate[1]);
        read(gate[0], &byte, 1);
        _exit(0);
    }
    pthread_t reader = start(read_forever, (void *)(intptr_t)gate[0]);
    pthread_t waiter = start(wait_forever, (void *)(intptr_t)last);
    for (int i = 0; i < 20; i++) {
        pid_t pid = i % 2 == 0 ? fork() : vfork();
        if (pid == 0)
            _exit(i);
        failed += status_of(pid) != i << 8;
    }
    close(gate[1]);
    check(failed == 0, "forks beside threads in calls that block");
    check((intptr_t)joined(reader) == 0 && (intptr_t)joined(waiter) == last, "which go on");
}

// ---- As many as there can be, under RLIMIT_NPROC ------------------------------------

static pid_t vfork_child(int code)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(code);
    return pid;
}
static int exit_two(void *arg) { return *(int *)arg; }

static void at_limit(void)
{
    static char stack[16 << 10] __attribute__((aligned(16)));
    struct rlimit limit, one;
    pid_t pid;
    int two = 2;
    need(getrlimit(RLIMIT_NPROC, &limit) == 0 && geteuid() != 0, "a limit that holds: no root");
    one = (struct rlimit){1, limit.rlim_max};
    need(setrlimit(RLIMIT_NPROC, &one) == 0, "setrlimit");
    for (int round = 0; round < 3; round++) {
        check_fails(fork(), EAGAIN, "fork at the limit");
        check_fails(vfork_child(1), EAGAIN, "vfork");
        check_fails(clone(exit_two, stack + sizeof stack, SIGCHLD, &two), EAGAIN, "clone");
        check(posix_spawn(&pid, "/bin/true", NULL, NULL, (char *[]){"true", NULL}, NULL) == EAGAIN, "posix_spawn");
        check(WEXITSTATUS(system("true")) == 127, "system");
    }
    check_fails(waitpid(-1, NULL, 0), ECHILD, "no child is left");
    need(setrlimit(RLIMIT_NPROC, &limit) == 0, "setrlimit");
    check(status_of(vfork_child(1)) == 1 << 8, "with a higher one vfork goes on");
    check(status_of(clone(exit_two, stack + sizeof stack, SIGCHLD, &two)) == 2 << 8 && WEXITSTATUS(system("exit 3")) == 3 &&
              status_of(child(4)) == 4 << 8,
          "and so do the others");
}

// Every process forks until it may not. Who may not first says so, and all end.
static int alarm_pipe[2], end_pipe[2];
static void multiply(void)
{
    char byte;
    while (fork() >= 0)
        ;
    close(end_pipe[1]);
    write_all(alarm_pipe[1], "!", 1);
    read(end_pipe[0], &byte, 1);
    _exit(0);
}

static void bomb(void)
{
    char byte;
    struct rlimit limit;
    need(getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur <= 1000 && geteuid() != 0,
         "a limit that holds: no root, and ulimit -u");
    need(pipe(alarm_pipe) == 0 && pipe(end_pipe) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0)
        multiply();
    need(read(alarm_pipe[0], &byte, 1) == 1, "read");
    close(end_pipe[1]);
    close(alarm_pipe[1]);
    check(status_of(pid) == 0, "a fork bomb meets the limit");
    while (read(alarm_pipe[0], &byte, 1) == 1) // until the last of them is gone
        ;
    int64_t end = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;
    do
        pid = fork();
    while (pid < 0 && clock_ns(CLOCK_MONOTONIC) < end);
    if (pid == 0)
        _exit(0);
    check(pid > 0 && status_of(pid) == 0, "and afterwards there is room again");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(unmapped), CASE(overflows), CASE(killed), CASE(returns), CASE(stores), CASE(smashes),
        CASE(beside_calls), CASE(at_limit), CASE(bomb),
    };
    return RUN_CASES(cases);
}
