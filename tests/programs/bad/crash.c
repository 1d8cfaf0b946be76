// Crashes in the way that its argument names: null, jump, non-canonical, text,
// divide, illegal, cli, hlt, wrmsr, in, out, overflow (of the stack),
// unmap-stack, bad-stack, abort, avx512 (where the CPU has none) and those in the
// table at the end. Natively all end by the signal in bad.tsv.
#include "../common/check.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

// Through volatile, so that the compiler does not see where they point.
static char *volatile at;

static void null(void) { *at = 1; }
static void jump(void)
{
    at = (char *)0x123456000;
    ((void (*)(void))(uintptr_t)at)();
}
static void non_canonical(void)
{
    at = (char *)0x8000000000000000;
    *at = 1;
}
static void kernel(void)
{
    at = (char *)0xffffffff80000000;
    *at = 1;
}
static void text(void)
{
    at = (char *)(uintptr_t)null;
    *at = 1;
}
static void run_data(void)
{
    static char code[16] = {(char)0xc3};
    ((void (*)(void))(uintptr_t)code)();
}
static void divide(void) { __asm__ volatile("xorl %%ecx, %%ecx\n idivl %%ecx" ::: "eax", "ecx", "edx"); }
static void illegal(void) { __asm__ volatile("ud2"); }
static void avx512(void) { __asm__ volatile("vaddps %%zmm0, %%zmm1, %%zmm2" ::: "xmm2"); }
static void cli(void) { __asm__ volatile("cli"); }
static void hlt(void) { __asm__ volatile("hlt"); }
static void wrmsr(void) { __asm__ volatile("xorl %%ecx, %%ecx\n wrmsr" ::: "ecx"); }
static void rdmsr(void) { __asm__ volatile("movl $0xc0000082, %%ecx\n rdmsr" ::: "eax", "ecx", "edx"); }
static void port_in(void) { __asm__ volatile("inb $0x64, %%al" ::: "eax"); }
static void port_out(void) { __asm__ volatile("outb %%al, $0xf4" ::: "eax"); }
static void cr3(void) { __asm__ volatile("xorl %%eax, %%eax\n movq %%rax, %%cr3" ::: "rax"); }
static void iret(void)
{
    // A return to a kernel code segment must not be believed. QEMU's TCG (7.2)
    // reads the frame with a supervisor's rights, so that with SMAP this is a
    // page fault from ring 3 whose error code has no user bit: Linux takes that
    // for its own mistake. Only the saved CS shows what it was.
    __asm__ volatile("pushq $0\n pushq %rsp\n pushfq\n pushq $0x10\n pushq $0x400000\n iretq");
}

__attribute__((noinline)) static int overflow_by(int depth)
{
    volatile char frame[4000];
    frame[0] = (char)depth;
    return overflow_by(depth + 1) + frame[0];
}
static void overflow(void) { overflow_by(0); }

static void caught(int signo) { (void)signo; }

// Regression: the frame of a SIGSEGV handler that may interrupt itself
// (SA_NODEFER) does not fit on the stack that overflowed. The kernel tried to
// push it for ever; no signal ended the program.
static void overflow_nodefer(void)
{
    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    overflow();
}

// The handler's address faults when it is entered, again and again, until the
// stack is full of frames.
static void handler_nowhere(void)
{
    struct sigaction action = {.sa_handler = (void (*)(int))0x8000000000000000, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    null();
}

static void unmap_stack(void)
{
    char *page = (char *)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)4095);
    munmap(page - (64 << 10), (64 << 10) + PAGE_BYTES);
    null();
}
static void bad_stack(void) { __asm__ volatile("movq $0x1000, %rsp\n pushq $1"); }
static void bad_stack_call(void)
{
    // A system call with an unusable stack pointer is fine; the ret is not.
    __asm__ volatile("movq $0x8000, %%rsp\n movl $39, %%eax\n syscall\n ret" ::: "rax", "rcx", "r11");
}
static void unmap_all(void) { syscall(SYS_munmap, 0x10000, 0x7ffffffe0000ul); }
static void handler_without_stack(void)
{
    // A handler that cannot be entered: its alternative stack is not there.
    stack_t s = {.ss_sp = (void *)0x10000, .ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = (void (*)(int))(uintptr_t)illegal, .sa_flags = SA_ONSTACK};
    sigaltstack(&s, NULL);
    sigaction(SIGSEGV, &action, NULL);
    null();
}
static void forged_return(void)
{
    // rt_sigreturn without a frame: whatever lies there is no valid context.
    __asm__ volatile("subq $8192, %%rsp\n andq $-64, %%rsp\n movq %%rsp, %%rdi\n movl $1024, %%ecx\n"
                     "movq $-1, %%rax\n rep stosq\n movl $15, %%eax\n syscall\n ud2" ::: "memory");
}

static const struct {
    const char *name;
    void (*act)(void);
} kinds[] = {
    {"null", null}, {"jump", jump}, {"non-canonical", non_canonical}, {"kernel", kernel}, {"text", text},
    {"run-data", run_data}, {"divide", divide}, {"illegal", illegal}, {"cli", cli}, {"hlt", hlt}, {"wrmsr", wrmsr},
    {"rdmsr", rdmsr}, {"in", port_in}, {"out", port_out}, {"cr3", cr3}, {"iret", iret}, {"overflow", overflow},
    {"overflow-nodefer", overflow_nodefer}, {"handler-nowhere", handler_nowhere},
    {"unmap-stack", unmap_stack}, {"bad-stack", bad_stack}, {"bad-stack-call", bad_stack_call},
    {"unmap-all", unmap_all}, {"no-handler-stack", handler_without_stack}, {"forged-return", forged_return},
    {"abort", abort}, {"avx512", avx512},
};

int main(int argc, char **argv)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        printf("about to crash: %s\n", argv[1]);
        fflush(stdout);
        kinds[i].act();
        printf("survived %s\n", argv[1]);
        return 1;
    }
    printf("no such way to crash\n");
    return 2;
}
