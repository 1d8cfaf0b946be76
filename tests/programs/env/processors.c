// getcpu and affinity: the CPU one runs on is in the mask, a thread bound to it
// stays there, masks that are too short or empty are refused.
#include "../common/check.h"
#include <sched.h>
#include <sys/syscall.h>

int main(void)
{
    cpu_set_t set, one, now;
    unsigned cpu = ~0u, node = ~0u;
    check(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
    int count = CPU_COUNT(&set);
    check(count >= 1, "at least one CPU");
    check(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && CPU_ISSET(cpu, &set), "getcpu's CPU is in the mask");
    check(node < 64, "its NUMA node is plausible");
    int current = sched_getcpu();
    check(current >= 0 && CPU_ISSET(current, &set), "sched_getcpu's too");
    check(sched_getaffinity(getpid(), sizeof now, &now) == 0 && CPU_EQUAL(&now, &set), "the same by pid");
    long raw = syscall(SYS_sched_getaffinity, 0, sizeof set, &now);
    check(raw >= 8 && raw % 8 == 0, "the system call gives a length in bytes");
    check_fails(syscall(SYS_sched_getaffinity, 0, 4, &now), EINVAL, "4 bytes are too few");
    check_fails(syscall(SYS_sched_getaffinity, 0, sizeof set, 8), EFAULT, "a bad pointer");

    CPU_ZERO(&one);
    CPU_SET(current, &one);
    check(sched_setaffinity(0, sizeof one, &one) == 0, "bound to one CPU");
    int stayed = 0;
    for (int i = 0; i < 10000; i++)
        stayed += sched_getcpu() == current;
    check(stayed == 10000, "stays there");
    check(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one), "the mask is told back");
    CPU_ZERO(&one);
    check_fails(sched_setaffinity(0, sizeof one, &one), EINVAL, "an empty mask");
    check(sched_setaffinity(0, sizeof set, &set) == 0, "and all of them again");
    check(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &set), "which is told back");
    check(sched_yield() == 0, "sched_yield");
    check(sysconf(_SC_NPROCESSORS_ONLN) >= 1, "sysconf knows of a CPU");
    return check_done();
}
