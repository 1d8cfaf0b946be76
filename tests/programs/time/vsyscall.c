// The vsyscall page: gettimeofday, time and getcpu at the addresses that old
// programs call. It can only be executed, at three places; bad pointers end in
// SIGSEGV. Natively it may be switched off (vsyscall=none): then this is not run.
#include "../common/check.h"
#include <sched.h>
#include <sys/time.h>
#include <time.h>

#define VSYSCALL UINT64_C(0xffffffffff600000)

static int (*const old_gettimeofday)(struct timeval *, void *) = (int (*)(struct timeval *, void *))VSYSCALL;
static time_t (*const old_time)(time_t *) = (time_t(*)(time_t *))(VSYSCALL + 0x400);
static int (*const old_getcpu)(unsigned *, unsigned *, void *) = (int (*)(unsigned *, unsigned *, void *))(VSYSCALL + 0x800);

static void tell_time(void *to) { old_time(to); }
static void jump_to(void *at) { ((void (*)(void))at)(); }

int main(void)
{
    struct timeval before, now, after;
    struct fault fault = fault_of(tell_time, NULL);
    need(fault.signo == 0, "the page is there");
    gettimeofday(&before, NULL);
    check(old_gettimeofday(&now, NULL) == 0, "gettimeofday");
    gettimeofday(&after, NULL);
    check(!timercmp(&now, &before, <) && !timercmp(&after, &now, <), "between two of the system call's");
    time_t told = 0, seconds = old_time(&told);
    check(told == seconds && seconds >= now.tv_sec - 1 && seconds <= time(NULL) + 1, "time"); // Linux: of its last tick
    unsigned cpu = ~0u, node = ~0u;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    check(old_getcpu(&cpu, &node, NULL) == 0 && CPU_ISSET(cpu, &one) && node == 0, "getcpu");

    fault = fault_of(tell_time, (void *)8);
    check(fault.signo == SIGSEGV, "a bad pointer");
    fault = fault_of(tell_time, (void *)VSYSCALL);
    check(fault.signo == SIGSEGV, "a pointer into the kernel's half");
    fault = fault_of(touch_read, (void *)VSYSCALL);
    check(fault.signo == SIGSEGV && fault.addr == (void *)VSYSCALL, "it cannot be read");
    fault = fault_of(jump_to, (void *)(VSYSCALL + 1));
    check(fault.signo == SIGSEGV, "only its entries can be called");
    fault = fault_of(jump_to, (void *)(VSYSCALL + 0xc00));
    check(fault.signo == SIGSEGV, "there is no fourth");
    return check_done();
}
