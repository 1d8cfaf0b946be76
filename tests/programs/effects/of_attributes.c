// What a process says of itself to a kernel that only keeps it: signals of its parent's end, orphans, the slack of timers,
// personality, capabilities as they are and may be; and that the kernel has one name.
//
// Regression: daemons and launchers failed, for these were EINVAL or EPERM; the files that name the kernel were the host's.
#include "../common/effects.h"
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

static void parents_end(void)
{
    int signo = -1;
    call("prctl");
    check(prctl(PR_GET_PDEATHSIG, &signo) == 0 && (signo == 0 || signo == SIGKILL), "none, or what the starter said");
    check(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && prctl(PR_GET_PDEATHSIG, &signo) == 0 && signo == SIGTERM, "a signal");
    check(prctl(PR_SET_PDEATHSIG, 0) == 0 && prctl(PR_GET_PDEATHSIG, &signo) == 0 && signo == 0, "none again");
    check_fails(prctl(PR_SET_PDEATHSIG, 65), EINVAL, "no signal");
    check_fails(prctl(PR_GET_PDEATHSIG, 8), EFAULT, "a bad pointer");
}

static void orphans(void)
{
    int set = -1;
    call("prctl");
    check(prctl(PR_GET_CHILD_SUBREAPER, &set) == 0 && set == 0, "orphans go to others");
    check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &set) == 0 && set == 1, "they come here");
    check(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &set) == 0 && set == 0, "and do not");
    check_fails(prctl(PR_GET_CHILD_SUBREAPER, 8), EFAULT, "a bad pointer");
}

static void slack(void)
{
    long first = prctl(PR_GET_TIMERSLACK);
    call("prctl");
    check(first > 0, "timers may be late");
    check(prctl(PR_SET_TIMERSLACK, 12345) == 0 && prctl(PR_GET_TIMERSLACK) == 12345, "by another time");
    check(prctl(PR_SET_TIMERSLACK, 0) == 0 && prctl(PR_GET_TIMERSLACK) == first, "by what it was");
}

// Whether select leaves as little of the time as it has waited for.
static int shows_the_rest(void)
{
    struct timeval limit = {0, 1000};
    need(select(0, NULL, NULL, NULL, &limit) == 0, "select");
    return limit.tv_sec == 0 && limit.tv_usec == 0;
}

static void personalities(void)
{
    call("personality");
    check(personality(~0u) == 0 && shows_the_rest(), "select says what is left");
    check(personality(STICKY_TIMEOUTS) == 0 && personality(~0u) == STICKY_TIMEOUTS, "STICKY_TIMEOUTS");
    struct timespec limit = {0, 1000000};
    check(!shows_the_rest(), "select does not");
    check(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &limit, NULL) == 0 && limit.tv_nsec == 1000000, "nor pselect");
    check(syscall(SYS_ppoll, NULL, 0, &limit, NULL, 8) == 0 && limit.tv_nsec == 1000000, "nor ppoll");
    check_fails(syscall(SYS_select, 0, NULL, NULL, NULL, 8), EFAULT, "a bad pointer");
    check(personality(ADDR_NO_RANDOMIZE) == STICKY_TIMEOUTS && shows_the_rest(), "without it, it says so again");
    check(personality(0) == ADDR_NO_RANDOMIZE, "as it was");
}

// A program that is told of Linux 2.6 is told of it by uname alone.
static void old_names(void)
{
    struct utsname name, old;
    call("personality");
    need(uname(&name) == 0 && personality(UNAME26) == 0 && uname(&old) == 0, "uname");
    check(personality(~0u) == UNAME26 && strncmp(old.release, "2.6.", 4) == 0, "UNAME26");
    int minor = -1;
    need(sscanf(name.release, "%*d.%d", &minor) == 1, "a release");
    check(atoi(old.release + 4) == minor + 60, "60 more than the minor number");
    check(strcmp(proc_line("/proc/sys/kernel/osrelease", ""), name.release) == 0, "files know nothing of it");
    check(personality(0) == UNAME26 && uname(&old) == 0 && strcmp(old.release, name.release) == 0, "and back");
}

static long barrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

// Registrations as Linux 6.3 began to tell them.
static void barriers(void)
{
    enum { GET_REGISTRATIONS = 1 << 9 };
    const int sync = MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, registers = sync << 1;
    int tells = barrier(MEMBARRIER_CMD_QUERY) & GET_REGISTRATIONS;
    call("membarrier");
    check(barrier(MEMBARRIER_CMD_QUERY) & sync, "what serializes cores is known");
    check_fails(barrier(sync), EPERM, "unregistered");
    check(!tells || barrier(GET_REGISTRATIONS) == 0, "nothing is registered");
    check(barrier(registers) == 0 && barrier(sync) == 0, "registered");
    check_fails(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED), EPERM, "the other one is not");
    check(!tells || barrier(GET_REGISTRATIONS) & registers, "a registration is told");
    check_fails(syscall(SYS_membarrier, sync, 1, 0), EINVAL, "a flag");
}

static void capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct now[2], more[2];
    check(syscall(SYS_capget, &header, now) == 0 && syscall(SYS_capset, &header, now) == 0, "those that it has");
    memcpy(more, now, sizeof more);
    more[0].permitted = more[1].permitted = ~0u;
    check_fails(syscall(SYS_capset, &header, more), EPERM, "those that nobody has");
    check_fails(syscall(SYS_capset, &header, 8), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_capset, 8, now), EFAULT, "another one");
    header.pid = 1;
    check_fails(syscall(SYS_capset, &header, now), EPERM, "another process's");
    header.version = 1;
    check_fails(syscall(SYS_capset, &header, now), EINVAL, "no version");
    check(header.version == _LINUX_CAPABILITY_VERSION_3, "Linux's own is told");
}

// Only who may give capabilities away changes what may be had.
static void bounds(void)
{
    int may = strtoull(proc_line("/proc/self/status", "CapEff:"), NULL, 16) >> CAP_SETPCAP & 1;
    unsigned long long bound = strtoull(proc_line("/proc/self/status", "CapBnd:"), NULL, 16);
    call("prctl");
    check(prctl(PR_CAPBSET_READ, 1) == (int)(bound >> 1 & 1), "what may be had");
    check_fails(prctl(PR_CAPBSET_READ, 64), EINVAL, "no capability");
    check(prctl(PR_GET_SECUREBITS) >= 0, "how root has them");
    if (!may) {
        check_fails(prctl(PR_CAPBSET_DROP, 1), EPERM, "one is not given away");
        check_fails(prctl(PR_SET_SECUREBITS, 0), EPERM, "nor is it changed how root has them");
    }
}

static void cpuid(void)
{
    call("arch_prctl");
    check(syscall(SYS_arch_prctl, 0x1011, 0) == 1, "CPUID does not fault");
    int faults = syscall(SYS_arch_prctl, 0x1012, 0) == 0;
    check(faults || errno == ENODEV, "it is made to, or cannot be");
    if (faults)
        syscall(SYS_arch_prctl, 0x1012, 1);
}

static void names(void)
{
    struct utsname name;
    char wanted[300];
    call("uname");
    need(uname(&name) == 0, "uname");
    check(strcmp(proc_line("/proc/sys/kernel/osrelease", ""), name.release) == 0, "the release is uname's");
    check(strcmp(proc_line("/proc/sys/kernel/version", ""), name.version) == 0, "so is the version");
    snprintf(wanted, sizeof wanted, "Linux version %s (", name.release);
    const char *line = proc_line("/proc/version", "");
    check(strncmp(line, wanted, strlen(wanted)) == 0 && strstr(line, name.version) != NULL, "and both in one line");
}

int main(void)
{
    parents_end();
    orphans();
    slack();
    personalities();
    old_names();
    barriers();
    capabilities();
    bounds();
    cpuid();
    names();
    return check_done();
}
