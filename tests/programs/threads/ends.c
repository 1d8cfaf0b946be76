// How a process of several threads ends, whatever ends it and whatever the
// others do meanwhile. `ends CASE`: the status is the table's.
#include "../common/parallel.h"

#include <poll.h>
#include <sys/resource.h>

static atomic_int running;

// ---- What the others do ----------------------------------------------------

static void *compute(void *arg)
{
    running++;
    for (volatile uint64_t i = 0;; i++)
        ;
    return arg;
}
static void *block_in_read(void *arg)
{
    int ends[2];
    char byte;
    need(pipe(ends) == 0, "pipe");
    running++;
    read(ends[0], &byte, 1);
    return arg;
}
static void *block_in_futex(void *arg)
{
    static word_t word;
    running++;
    futex_wait(&word, 0);
    return arg;
}
static void *block_in_sleep(void *arg)
{
    struct timespec time = {.tv_sec = 1000};
    running++;
    nanosleep(&time, NULL);
    return arg;
}
static void *block_in_poll(void *arg)
{
    running++;
    poll(NULL, 0, -1);
    return arg;
}
static void *block_all(void *arg)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    running++;
    for (;;)
        sigwaitinfo(&all, NULL);
    return arg;
}
static void *call_often(void *arg)
{
    running++;
    for (;;)
        syscall(SYS_getppid);
    return arg;
}
static void others_start(void)
{
    static void *(*const bodies[])(void *) = {compute,       block_in_read, block_in_futex, block_in_sleep,
                                              block_in_poll, block_all,     call_often};
    for (int i = 0; i < 7; i++)
        start(bodies[i], NULL);
    AWAIT(running == 7);
    check(1, "seven threads compute, block and call");
}

// ---- Who ends it -----------------------------------------------------------

static void main_returns(void)
{
    others_start();
    exit(3);
}
static void *call_exit(void *arg)
{
    (void)arg;
    check(1, "exit by another thread");
    exit(4);
}
static void thread_exits(void)
{
    others_start();
    start(call_exit, NULL);
    pause();
}
static void *call_raw_exit_group(void *arg)
{
    syscall(SYS_exit_group, 5);
    return arg;
}
static void thread_exit_group(void)
{
    others_start();
    start(call_raw_exit_group, NULL);
    pause();
}
// Two at once: one of the statuses, here the same.
static void many_exit(void)
{
    others_start();
    for (int i = 0; i < 4; i++)
        start(call_raw_exit_group, NULL);
    syscall(SYS_exit_group, 5);
}
static void *fault(void *arg)
{
    *(volatile int *)arg = 1;
    return arg;
}
static void thread_faults(void)
{
    others_start();
    start(fault, (void *)8);
    pause();
}
static void *divide(void *arg)
{
    volatile int zero = 0;
    __asm__ volatile("idivl %0" : : "m"(zero), "a"(1), "d"(0));
    return arg;
}
static void thread_divides(void)
{
    others_start();
    start(divide, NULL);
    pause();
}
static void *call_abort(void *arg)
{
    (void)arg;
    abort();
}
static void thread_aborts(void)
{
    others_start();
    start(call_abort, NULL);
    pause();
}
static void *kill_process(void *arg)
{
    kill(getpid(), (int)(intptr_t)arg);
    return arg;
}
static void thread_terminates(void)
{
    others_start();
    start(kill_process, (void *)SIGTERM);
    pause();
}
static void thread_kills(void)
{
    others_start();
    start(kill_process, (void *)SIGKILL);
    pause();
}
// A signal for one thread that is not caught ends all.
static void *sleep_on(void *arg)
{
    *(_Atomic pid_t *)arg = own_tid();
    pause();
    return NULL;
}
static void signal_for_thread(void)
{
    static _Atomic pid_t tid;
    others_start();
    start(sleep_on, (void *)&tid);
    AWAIT(tid);
    signal_thread(tid, SIGUSR2);
    pause();
}

// Every thread ends by itself; the last one's end is the process's.
static void *end_last(void *arg)
{
    pthread_t main_thread = *(pthread_t *)arg;
    pthread_join(main_thread, NULL);
    check(1, "the main thread has ended before");
    return NULL;
}
static pthread_t main_thread;
static void main_ends_first(void)
{
    main_thread = pthread_self();
    start(end_last, &main_thread);
    pthread_exit(NULL);
}
static void *say_and_exit(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    check(1, "the main thread has ended before");
    exit(6);
}
static void exit_after_main(void)
{
    main_thread = pthread_self();
    start(say_and_exit, &main_thread);
    pthread_exit(NULL);
}
// The status of the last thread's exit(2) is the process's.
static void *raw_exit_last(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    syscall(SYS_exit, 9);
    return NULL;
}
static void raw_exits(void)
{
    main_thread = pthread_self();
    start(raw_exit_last, &main_thread);
    pthread_exit(NULL);
}
static void *fault_last(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    return fault((void *)16);
}
static void fault_after_main(void)
{
    main_thread = pthread_self();
    start(fault_last, &main_thread);
    pthread_exit(NULL);
}

// ---- Stacks that are none --------------------------------------------------

static volatile int deep;
__attribute__((noinline)) static int recurse(int n)
{
    volatile char block[512];
    block[0] = (char)n;
    deep++;
    return recurse(n + 1) + block[0];
}
static void *overflow(void *arg)
{
    recurse(0);
    return arg;
}
static void stack_overflow(void)
{
    others_start();
    start(overflow, NULL);
    pause();
}

// The handler has a stack of its own and sees where the other one ended.
static char alt_stack[64 << 10];
static char *volatile stack_low;
static void on_overflow(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    char *at = info->si_addr;
    int in_guard = at < stack_low && at >= stack_low - 2 * PAGE_BYTES;
    check(in_guard && info->si_code == SEGV_ACCERR, "the handler is told of an address in the guard");
    _exit(in_guard ? 7 : 1);
}
static void *overflow_caught(void *arg)
{
    stack_t stack = {.ss_sp = alt_stack, .ss_size = sizeof alt_stack};
    pthread_attr_t attr;
    void *low;
    size_t size;
    need(sigaltstack(&stack, NULL) == 0 && pthread_getattr_np(pthread_self(), &attr) == 0, "set-up");
    pthread_attr_getstack(&attr, &low, &size);
    stack_low = low;
    recurse(0);
    return arg;
}
static void overflow_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    others_start();
    sigaction(SIGSEGV, &action, NULL);
    start(overflow_caught, NULL);
    pause();
}

// Handlers that have no stack to run on: the signal kills.
static void nothing(int signo) { (void)signo; }
static void *without_stack(void *arg)
{
    __asm__ volatile("mov %0, %%rsp\n1: jmp 1b" : : "r"(arg));
    return NULL;
}
static void broken_stack(void)
{
    others_start();
    catch_signal(SIGUSR1, nothing, 0);
    pthread_t thread = start(without_stack, (void *)16);
    for (;;)
        pthread_kill(thread, SIGUSR1);
}
static void *bad_alt_stack(void *arg)
{
    char *page = mmap(NULL, 16 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = page, .ss_size = 16 * PAGE_BYTES};
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    catch_signal(SIGUSR1, nothing, SA_ONSTACK);
    pthread_kill(pthread_self(), SIGUSR1);
    return arg;
}
static void broken_alt_stack(void)
{
    others_start();
    start(bad_alt_stack, NULL);
    pause();
}

// A thread's stack is taken away under it.
static void *use_stack(void *arg)
{
    volatile char here[64];
    *(char *volatile *)arg = (char *)here;
    running++;
    for (;;)
        for (int i = 0; i < 64; i++)
            here[i]++;
    return arg;
}
static void stack_unmapped(void)
{
    static char *volatile where;
    enum { BYTES = 128 << 10 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    need(memory != MAP_FAILED && pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, memory, BYTES) == 0, "stack");
    others_start();
    need(pthread_create(&thread, &attr, use_stack, (void *)&where) == 0, "pthread_create");
    AWAIT(running == 8);
    check(where >= memory && where < memory + BYTES, "a thread computes on its stack");
    munmap(memory, BYTES);
    pause();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(main_returns), CASE(thread_exits), CASE(thread_exit_group), CASE(many_exit), CASE(thread_faults),
        CASE(thread_divides), CASE(thread_aborts), CASE(thread_terminates), CASE(thread_kills),
        CASE(signal_for_thread), CASE(main_ends_first), CASE(exit_after_main), CASE(raw_exits),
        CASE(fault_after_main), CASE(stack_overflow), CASE(overflow_handler), CASE(broken_stack),
        CASE(broken_alt_stack), CASE(stack_unmapped),
    };
    // A crash leaves no file.
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    return RUN_CASES(cases);
}
