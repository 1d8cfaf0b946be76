// sigaltstack: handlers run on it with SA_ONSTACK, a stack overflow is survived on
// it, its state is told right, and the refusals.
#include "../common/check.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { ALT_BYTES = 64 << 10 };
static char *alt;
static volatile int on_alt, flags_inside;
static sigjmp_buf overflowed;
static volatile uintptr_t fault_at;

static void where(int signo)
{
    char here;
    stack_t now;
    (void)signo;
    on_alt = &here >= alt && &here < alt + ALT_BYTES;
    sigaltstack(NULL, &now);
    flags_inside = now.ss_flags;
}

static void overflow_handler(int signo, siginfo_t *info, void *context)
{
    (void)context;
    where(signo);
    fault_at = (uintptr_t)info->si_addr;
    siglongjmp(overflowed, signo);
}

__attribute__((noinline)) static int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return recurse(depth + 1) + frame[0];
}

static void install(int signo, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
}

static stack_t left; // what a handler leaves in its frame

static void leave(int signo, siginfo_t *info, void *context)
{
    (void)info;
    where(signo);
    ((ucontext_t *)context)->uc_stack = left;
}

// Regression: what a handler had stored was there after its return, though it ran on the stack that was in use, or it was too small.
static void edited_frames(stack_t set)
{
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t now;
    left = (stack_t){.ss_sp = alt, .ss_size = ALT_BYTES / 2};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    check(on_alt && sigaltstack(NULL, &now) == 0 && now.ss_size == set.ss_size, "a handler on it leaves another: ignored");
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    check(!on_alt && sigaltstack(NULL, &now) == 0 && now.ss_size == ALT_BYTES / 2, "one on the main stack: taken");
    left.ss_size = 2047;
    raise(SIGUSR1);
    check(sigaltstack(NULL, &now) == 0 && now.ss_size == ALT_BYTES / 2, "one of 2,047 bytes: ignored");
    need(sigaltstack(&set, NULL) == 0, "sigaltstack");
    install(SIGUSR1, where, SA_ONSTACK);
}

int main(void)
{
    stack_t now, set = {.ss_size = ALT_BYTES};
    char here;
    alt = set.ss_sp = mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(alt != MAP_FAILED, "mmap");
    check(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE, "none at first");
    check(sigaltstack(&set, NULL) == 0, "one of 64 KB set");
    check(sigaltstack(NULL, &now) == 0 && now.ss_sp == alt && now.ss_size == ALT_BYTES && now.ss_flags == 0, "told back");

    install(SIGUSR1, where, 0);
    raise(SIGUSR1);
    check(!on_alt && flags_inside == 0, "without SA_ONSTACK a handler runs on the main stack");
    install(SIGUSR1, where, SA_ONSTACK);
    raise(SIGUSR1);
    check(on_alt && flags_inside == SS_ONSTACK, "with it on the other one, and SS_ONSTACK is told");
    sigaltstack(NULL, &now);
    check(now.ss_flags == 0, "not so after the return");

    edited_frames(set);

    struct rlimit limit = {1 << 20, 8 << 20}, old;
    need(getrlimit(RLIMIT_STACK, &old) == 0, "getrlimit");
    limit.rlim_max = old.rlim_max;
    // Natively this keeps the overflow short; where stacks are fixed from the
    // start it changes nothing, and the guard page ends the recursion.
    setrlimit(RLIMIT_STACK, &limit);
    struct sigaction action = {.sa_sigaction = overflow_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    for (int i = 1; i <= 3; i++) {
        on_alt = 0;
        int signo = sigsetjmp(overflowed, 1);
        if (signo == 0)
            recurse(0);
        check(signo == SIGSEGV && on_alt, "stack overflow %d caught on the other stack", i);
        check(fault_at < (uintptr_t)&here, "its address lies below the stack's frames");
    }

    set.ss_size = 100;
    check_fails(sigaltstack(&set, NULL), ENOMEM, "100 bytes are too few");
    set.ss_size = ALT_BYTES;
    set.ss_flags = 0x40;
    check_fails(sigaltstack(&set, NULL), EINVAL, "unknown flags");
    set = (stack_t){.ss_flags = SS_DISABLE};
    check(sigaltstack(&set, &now) == 0 && now.ss_sp == alt, "taken away, the old one told");
    on_alt = 1;
    raise(SIGUSR1);
    check(!on_alt, "then SA_ONSTACK means the main stack");
    return check_done();
}
