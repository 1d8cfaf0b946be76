// clone(2) and clone3(2) themselves: what threads are made with, the tids that
// are stored, the word that is cleared at the end, and what is refused. The new
// threads share everything with their maker and use no C library. One case per run.
#include "../common/parallel.h"

#define FLAG(name, value) static const uint64_t name = UINT64_C(value)
FLAG(VM, 0x100);
FLAG(FS, 0x200);
FLAG(FILES, 0x400);
FLAG(SIGHAND, 0x800);
FLAG(PARENT, 0x8000);
FLAG(THREAD, 0x10000);
FLAG(NEWNS, 0x20000);
FLAG(SYSVSEM, 0x40000);
FLAG(SETTLS, 0x80000);
FLAG(PARENT_SETTID, 0x100000);
FLAG(CHILD_CLEARTID, 0x200000);
FLAG(DETACHED, 0x400000);
FLAG(CHILD_SETTID, 0x1000000);
#define AS_THREAD (VM | FS | FILES | SIGHAND | THREAD | SYSVSEM)

struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

enum { STACK_BYTES = 64 << 10 };
static char stack[STACK_BYTES] __attribute__((aligned(64)));
static word_t child_tid, parent_tid;
static _Atomic uint32_t ran, go;
static _Atomic int64_t seen_tid, seen_pid;

static long bare(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

// What a new thread runs, on its own stack; nothing of it may need thread-local storage.
__attribute__((noreturn, used)) static void child(void)
{
    seen_tid = bare(SYS_gettid, 0, 0);
    seen_pid = bare(SYS_getpid, 0, 0);
    ran = 1;
    while (!go)
        bare(SYS_sched_yield, 0, 0);
    for (;;)
        bare(SYS_exit, 0, 0);
}

// Negative: the error. The new thread goes to `child`.
static long raw_clone(uint64_t flags, void *top, void *parent, void *own)
{
    long result;
    register void *r10 __asm__("r10") = own;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tand $-16, %%rsp\n\tcall *%[child]\n1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone), "D"(flags), "S"(top), "d"(parent), "r"(r10), [child] "r"(child)
                     : "rcx", "r11", "memory");
    return result;
}
static long raw_clone3(struct arguments *arguments, size_t size)
{
    long result;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tand $-16, %%rsp\n\tcall *%[child]\n1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone3), "D"(arguments), "S"(size), [child] "r"(child)
                     : "rcx", "r11", "memory");
    return result;
}

static void prepare(void)
{
    ran = go = 0;
    child_tid = parent_tid = 0x7fffffff;
}
// Waits as pthread_join does: for the word to be cleared, by the wake that comes with it.
static void await_end(void)
{
    go = 1;
    for (uint32_t value; (value = child_tid) != 0;)
        futex(&child_tid, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void by_clone(void)
{
    prepare();
    long tid = raw_clone(AS_THREAD | PARENT_SETTID | CHILD_SETTID | CHILD_CLEARTID, stack + STACK_BYTES, &parent_tid,
                         &child_tid);
    if (!check(tid > 0, "a thread is made"))
        return;
    check(parent_tid == tid, "its tid is stored for the parent at once");
    AWAIT(ran);
    check(seen_tid == tid && child_tid == tid, "and for the child before it runs; gettid agrees");
    check(seen_pid == getpid() && tid != getpid(), "its pid is the process's, its tid its own");
    await_end();
    check(child_tid == 0, "the word is cleared at its end, and its waiter woken");
    AWAIT(signal_thread((pid_t)tid, 0) == -1);
    check(errno == ESRCH, "then there is no such thread");
}

static void by_clone3(void)
{
    prepare();
    struct arguments arguments = {
        .flags = AS_THREAD | PARENT_SETTID | CHILD_SETTID | CHILD_CLEARTID,
        .child_tid = (uintptr_t)&child_tid,
        .parent_tid = (uintptr_t)&parent_tid,
        .stack = (uintptr_t)stack,
        .stack_size = STACK_BYTES,
    };
    long tid = raw_clone3(&arguments, sizeof arguments);
    if (!check(tid > 0, "a thread is made"))
        return;
    AWAIT(ran);
    check(seen_tid == tid && child_tid == tid && parent_tid == tid, "its tid is stored in both places");
    await_end();
    check(child_tid == 0, "the word is cleared at its end");
}

// The first version of the structure has 64 bytes.
static void short_clone3(void)
{
    prepare();
    struct arguments arguments = {
        .flags = AS_THREAD | CHILD_CLEARTID,
        .child_tid = (uintptr_t)&child_tid,
        .stack = (uintptr_t)stack,
        .stack_size = STACK_BYTES,
    };
    long tid = raw_clone3(&arguments, 64);
    check(tid > 0, "a thread is made");
    AWAIT(ran);
    check(child_tid == 0x7fffffff, "nothing is stored unless wanted");
    await_end();
}

// A structure with more to it than the kernel defines is fine as long as that is zero.
static void long_clone3(void)
{
    struct {
        struct arguments known;
        char rest[64];
    } arguments = {.known = {
                       .flags = AS_THREAD | CHILD_CLEARTID,
                       .child_tid = (uintptr_t)&child_tid,
                       .stack = (uintptr_t)stack,
                       .stack_size = STACK_BYTES,
                   }};
    prepare();
    arguments.rest[60] = 1;
    check(raw_clone3(&arguments.known, sizeof arguments) == -E2BIG, "what the kernel does not know is refused");
    arguments.rest[60] = 0;
    check(raw_clone3(&arguments.known, sizeof arguments) > 0, "zeros are taken");
    AWAIT(ran);
    await_end();
}

// A tid that cannot be stored or cleared does no harm.
static void wild_words(void)
{
    prepare();
    uint64_t flags = AS_THREAD | PARENT_SETTID | CHILD_SETTID | CHILD_CLEARTID;
    check(raw_clone(flags, stack + STACK_BYTES, (void *)0x20, (void *)0x10) > 0,
          "a thread whose tid is to be stored nowhere");
    AWAIT(ran);
    pid_t tid = (pid_t)seen_tid;
    go = 1;
    AWAIT(signal_thread(tid, 0) == -1 && errno == ESRCH);
    check(1, "runs and ends");
}

static void *change_word(void *arg)
{
    word_t *word = arg;
    *word = 1;
    pid_t result = (pid_t)bare(SYS_set_tid_address, (long)word, 0);
    *(volatile pid_t *)(word + 1) = result;
    // It ends without its C library, for which it stays a joinable thread.
    bare(SYS_exit, 0, 0);
    return NULL;
}
static void other_word(void)
{
    static word_t words[2];
    start(change_word, words);
    // Before the thread runs the word is 0, as it is after its end.
    AWAIT(words[1] != 0);
    for (uint32_t value; (value = words[0]) != 0;)
        futex(&words[0], FUTEX_WAIT, value, NULL, NULL, 0);
    check(words[0] == 0, "set_tid_address: that word is cleared");
    check((pid_t)words[1] != getpid() && words[1] > 0, "it returns the thread's tid");
}

static void refused(uint64_t flags, int error, const char *what)
{
    long result = raw_clone(flags, stack + STACK_BYTES, NULL, NULL);
    check(result == -error, "clone: %s", what);
    struct arguments arguments = {.flags = flags, .stack = (uintptr_t)stack, .stack_size = STACK_BYTES};
    result = raw_clone3(&arguments, sizeof arguments);
    check(result == -error, "clone3: %s", what);
}
static void wrong_flags(void)
{
    prepare();
    refused(THREAD, EINVAL, "a thread that does not share handlers");
    refused(THREAD | VM, EINVAL, "nor with shared memory");
    refused(SIGHAND, EINVAL, "shared handlers without shared memory");
    refused(THREAD | SIGHAND, EINVAL, "a thread without shared memory");
    refused(AS_THREAD | NEWNS, EINVAL, "a namespace of its own, and shared directories");
}

static void wrong_clone3(void)
{
    prepare();
    struct arguments good = {.flags = AS_THREAD, .stack = (uintptr_t)stack, .stack_size = STACK_BYTES}, bad;
    check(raw_clone3(&good, 63) == -EINVAL, "a structure too short");
    check(raw_clone3(&good, 0) == -EINVAL, "of no length");
    check(raw_clone3(&good, 5000) == -E2BIG, "of more than a page");
    check(raw_clone3((void *)8, sizeof good) == -EFAULT, "a structure nowhere");
    bad = good;
    bad.exit_signal = SIGCHLD;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a thread that signals its end");
    bad = good;
    bad.exit_signal = 300;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a signal beyond all");
    bad = good;
    bad.stack_size = 0;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a stack without a length");
    bad = good;
    bad.stack = 0;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a length without a stack");
    bad = good;
    bad.stack = UINT64_C(0xffff800000000000);
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a stack in the kernel's half");
    bad = good;
    bad.flags |= SETTLS;
    bad.tls = UINT64_C(1) << 62;
    check(raw_clone3(&bad, sizeof bad) == -EPERM, "a thread area where there can be no memory");
    bad = good;
    bad.flags |= DETACHED;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "an old flag");
    bad = good;
    bad.flags |= UINT64_C(1) << 60;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "an unknown flag");
    bad = good;
    bad.flags |= PARENT;
    bad.exit_signal = SIGCHLD;
    check(raw_clone3(&bad, sizeof bad) == -EINVAL, "a sibling that signals");
    check(!ran, "nothing of that ran");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(by_clone), CASE(by_clone3), CASE(short_clone3), CASE(long_clone3), CASE(wild_words),
        CASE(other_word), CASE(wrong_flags), CASE(wrong_clone3),
    };
    return RUN_CASES(cases);
}
