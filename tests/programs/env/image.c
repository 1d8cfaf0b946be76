// The program's own image: initialised and zero data, read-only data and code
// that refuse writes, thread-local variables, constructors, 32 MB of bss.
#include "../common/check.h"
#include <asm/prctl.h>
#include <sys/syscall.h>

static char bss[32 << 20];
static int data[1000] = {[0] = 1, [500] = 2, [999] = 3};
static const int rodata[4] = {10, 20, 30, 40};
static int *const relocated[2] = {&data[0], &data[999]};
static _Thread_local int tls_data = 77;
static _Thread_local char tls_bss[5000];
static _Thread_local _Alignas(256) int tls_aligned = 5;
static int order;
static int constructed[2];

__attribute__((constructor(201))) static void early(void) { constructed[0] = ++order; }
__attribute__((constructor(202))) static void late(void) { constructed[1] = ++order; }
__attribute__((destructor)) static void at_end(void) { puts("destructor ran"); }

int main(void)
{
    check(all_bytes(bss, 0, sizeof bss), "32 MB of bss are zero");
    memset(bss, 1, sizeof bss);
    check(all_bytes(bss, 1, sizeof bss), "and can be written");
    check(data[0] == 1 && data[500] == 2 && data[999] == 3 && data[1] == 0, "initialised data");
    check(*relocated[0] == 1 && *relocated[1] == 3, "pointers in data point right");
    check(constructed[0] == 1 && constructed[1] == 2, "constructors ran in order");
    check(rodata[2] == 30 && !can_write(rodata), "constants cannot be written");
    check(can_read((void *)(uintptr_t)main) && !can_write((void *)(uintptr_t)main), "code can be read, not written");
    check(!can_write(relocated), "relocated constants cannot be written either");

    check(tls_data == 77 && all_bytes(tls_bss, 0, sizeof tls_bss), "thread-local data");
    check(tls_aligned == 5 && (uintptr_t)&tls_aligned % 256 == 0, "aligned as asked");
    unsigned long fs = 0, self = 0;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    check(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0 && fs == self, "ARCH_GET_FS is the thread pointer");
    check(syscall(SYS_arch_prctl, ARCH_SET_FS, fs) == 0 && tls_data == 77, "ARCH_SET_FS to the same");
    check_fails(syscall(SYS_arch_prctl, ARCH_SET_FS, 0xffff800000000000), EPERM, "ARCH_SET_FS to a kernel address");
    check(tls_data == 77, "changed nothing");
    unsigned long gs = 1;
    check(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0 && gs == 0, "GS is 0 at first");
    check(syscall(SYS_arch_prctl, ARCH_SET_GS, data) == 0, "ARCH_SET_GS");
    int through_gs = 0;
    __asm__ volatile("movl %%gs:2000, %0" : "=r"(through_gs));
    syscall(SYS_getppid); // across a system call
    int again = 0;
    __asm__ volatile("movl %%gs:3996, %0" : "=r"(again));
    check(through_gs == 2 && again == 3, "GS is used and kept");
    check_fails(syscall(SYS_arch_prctl, 0x9999, 0), EINVAL, "an unknown code");
    return check_done();
}
