// System calls that do not exist: every one gives ENOSYS and nothing else, with
// all argument registers full of rubbish. Of the number the lower half of the
// register counts.
#include "../common/check.h"
#include <sys/syscall.h>

static long call(uint64_t number)
{
    long result;
    register long r10 __asm__("r10") = -4;
    register long r8 __asm__("r8") = 0x7fffffff;
    register long r9 __asm__("r9") = (long)0xffff800000000000;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(-1l), "S"(0x123456789abcdefl), "d"(-2l), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void)
{
    // 0x40000000 is the bit of the x32 calls.
    static const uint64_t numbers[] = {500,        512,        547,        548,        600,      1000,
                                       4095,       4096,       65535,      65536,      1 << 20,  0x3fffffff,
                                       0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xfffffffe, 0xffffffff,
                                       0xfffffffffffffff0, 0xffffffffffffffff, 0x100000000 + 5000, 0x8000000000001388};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        check(call(numbers[i]) == -ENOSYS, "call %llx gives ENOSYS", (unsigned long long)numbers[i]);
    int right = 0;
    for (uint64_t n = 548; n < 20000; n++)
        right += call(n) == -ENOSYS;
    check(right == 20000 - 548, "548 to 19999 too");
    // The whole register was compared: these gave ENOSYS, where Linux makes the call. A local, a shipped and a refused one.
    const uint64_t upper = UINT64_C(0xdeadbeef) << 32;
    check(call(upper | SYS_getpid) == getpid(), "rubbish in the upper half is no part of the number: getpid");
    check(call(upper | SYS_close) == -EBADF, "and close");
    check(call(upper | SYS_acct) == call(SYS_acct), "and acct");
    check(getpid() > 0, "and the program goes on");
    return check_done();
}
