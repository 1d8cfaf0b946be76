// The siginfo of hardware faults: code and address of SIGSEGV, SIGFPE, SIGILL
// and SIGTRAP in several ways, against the instruction's own address.
#include "../common/check.h"
#include <sys/mman.h>

extern char div_at[], div2_at[], ud2_at[], hlt_at[];

static void divide(void *p)
{
    (void)p;
    __asm__ volatile("xorl %%ecx, %%ecx\n movl $1, %%eax\n cltd\n"
                     ".globl div_at\ndiv_at: idivl %%ecx" ::: "eax", "ecx", "edx");
}
static void overflow(void *p)
{
    (void)p;
    __asm__ volatile("movl $-1, %%ecx\n movl $0x80000000, %%eax\n cltd\n"
                     ".globl div2_at\ndiv2_at: idivl %%ecx" ::: "eax", "ecx", "edx");
}
static void illegal(void *p)
{
    (void)p;
    __asm__ volatile(".globl ud2_at\nud2_at: ud2");
}
static void halt(void *p)
{
    (void)p;
    __asm__ volatile(".globl hlt_at\nhlt_at: hlt");
}
static void breakpoint(void *p)
{
    (void)p;
    __asm__ volatile("int3");
}
static void interrupt_gate(void *p)
{
    (void)p;
    __asm__ volatile("int $0x20");
}
static void jump(void *p) { ((void (*)(void))p)(); }

static void expect(struct fault f, int signo, int code, const void *addr, const char *text)
{
    if (!check(f.signo == signo && f.code == code && f.addr == addr, "%s: signal %d, code %d", text, signo, code))
        printf("     got signal %d, code %d, address off by %ld\n", f.signo, f.code, (long)((char *)f.addr - (char *)addr));
}

int main(void)
{
    char *p = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED && munmap(p + PAGE_BYTES, PAGE_BYTES) == 0, "mmap");

    expect(fault_of(touch_read, NULL), SIGSEGV, SEGV_MAPERR, NULL, "reading address 0");
    expect(fault_of(touch_read, (void *)0xfff), SIGSEGV, SEGV_MAPERR, (void *)0xfff, "reading 0xfff");
    expect(fault_of(touch_write, p + 7), SIGSEGV, SEGV_ACCERR, p + 7, "writing read-only memory");
    expect(fault_of(touch_write, p + PAGE_BYTES + 9), SIGSEGV, SEGV_MAPERR, p + PAGE_BYTES + 9, "writing a hole");
    expect(fault_of(jump, p), SIGSEGV, SEGV_ACCERR, p, "running data");
    expect(fault_of(jump, NULL), SIGSEGV, SEGV_MAPERR, NULL, "calling address 0");
    expect(fault_of(touch_write, (void *)(uintptr_t)jump), SIGSEGV, SEGV_ACCERR, (void *)(uintptr_t)jump, "writing code");
    // Addresses above the canonical limit raise a general protection fault,
    // which has no address: SI_KERNEL and 0.
    expect(fault_of(touch_read, (void *)0x8000000000000000), SIGSEGV, SI_KERNEL, NULL, "a non-canonical address");
    expect(fault_of(touch_read, (void *)0xffff800000001000), SIGSEGV, SEGV_MAPERR, (void *)0xffff800000001000,
           "a kernel address");
    expect(fault_of(divide, NULL), SIGFPE, FPE_INTDIV, div_at, "dividing by zero");
    expect(fault_of(overflow, NULL), SIGFPE, FPE_INTDIV, div2_at, "dividing the least number by -1");
    expect(fault_of(illegal, NULL), SIGILL, ILL_ILLOPN, ud2_at, "ud2");
    expect(fault_of(breakpoint, NULL), SIGTRAP, SI_KERNEL, NULL, "int3");
    expect(fault_of(halt, NULL), SIGSEGV, SI_KERNEL, NULL, "hlt");
    expect(fault_of(interrupt_gate, NULL), SIGSEGV, SI_KERNEL, NULL, "int 0x20");
    return check_done();
}
