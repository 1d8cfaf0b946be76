// What the local calls about limits and processor time do: a limit that was
// set holds, or setting it was refused.
//
// Regression: limits on processor time, address space, data, stack and queued
// signals were taken and told back, and nothing came of them.
#include "../common/effects.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>

static struct rlimit of(int resource)
{
    struct rlimit limit;
    need(getrlimit(resource, &limit) == 0, "getrlimit");
    return limit;
}

// Sets a soft limit; whether it was not refused.
static int lower(int resource, rlim_t soft)
{
    struct rlimit limit = of(resource);
    limit.rlim_cur = soft;
    int result = setrlimit(resource, &limit);
    need(result == 0 || errno == EPERM, "setrlimit");
    return result == 0;
}

static int maps(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED && munmap(at, bytes) == 0;
}

static int stack_reaches(size_t bytes) { return can_write((char *)__builtin_frame_address(0) - bytes); }

static int queues(void)
{
    union sigval value = {.sival_int = 1};
    return sigqueue(getpid(), SIGRTMIN, value) == 0;
}

static void of_memory(void)
{
    struct {
        int resource;
        const char *name;
        rlim_t soft;
    } limits[] = {{RLIMIT_AS, "RLIMIT_AS", 32 << 20}, {RLIMIT_DATA, "RLIMIT_DATA", 8 << 20}};
    call("setrlimit");
    for (int i = 0; i < 2; i++) {
        struct rlimit before = of(limits[i].resource);
        int set = lower(limits[i].resource, limits[i].soft);
        check(!set || !maps(48 << 20), "%s of %d MiB: 48 MiB are not to be had, or it was refused", limits[i].name,
              (int)(limits[i].soft >> 20));
        check(setrlimit(limits[i].resource, &before) == 0 && maps(48 << 20), "and are again");
    }
    int set = lower(RLIMIT_STACK, 256 << 10);
    check(!set || !stack_reaches(1 << 20), "RLIMIT_STACK of 256 KiB: 1 MiB is too deep, or it was refused");
    set = lower(RLIMIT_MEMLOCK, 0);
    char page[2 * PAGE_BYTES];
    check(!set || geteuid() == 0 || mlock(page, sizeof page) != 0, "RLIMIT_MEMLOCK of 0: no lock, or it was refused");
}

// Regression: nothing could be given back under a limit below what there is, nor the heap grow within its last page.
static void of_address_space(void)
{
    struct rlimit before = of(RLIMIT_AS);
    char *at = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int id = shmget(IPC_PRIVATE, PAGE_BYTES, IPC_CREAT | 0600);
    // Linux takes more for the stack, too.
    need(at != MAP_FAILED && id >= 0 && stack_reaches(64 << 10), "memory");
    char *end = (char *)syscall(SYS_brk, 0);
    end = (char *)syscall(SYS_brk, end + (4 * PAGE_BYTES - (uintptr_t)end % PAGE_BYTES) - 16);
    if (lower(RLIMIT_AS, PAGE_BYTES)) {
        check((char *)syscall(SYS_brk, end + 32) == end, "RLIMIT_AS of one page: the heap does not grow");
        check((char *)syscall(SYS_brk, end + 8) == end + 8, "but within its last page");
        check((char *)syscall(SYS_brk, end - 2 * PAGE_BYTES) == end - 2 * PAGE_BYTES, "and becomes shorter");
        check(mremap(at, 4 * PAGE_BYTES, 5 * PAGE_BYTES, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM, "nor does a mapping");
        check(mremap(at, 4 * PAGE_BYTES, 4 * PAGE_BYTES - 1, 0) == at, "which may stay as it is");
        check(mremap(at, 4 * PAGE_BYTES, 2 * PAGE_BYTES, 0) == at, "and become shorter");
        check(shmat(id, NULL, 0) == (void *)-1 && errno == ENOMEM, "no segment is attached");
        check(mmap(at, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED && errno == ENOMEM,
              "nothing is mapped in the place of what is there");
        check(munmap(at, 2 * PAGE_BYTES) == 0, "and all can be given back");
    }
    char *segment;
    check(setrlimit(RLIMIT_AS, &before) == 0 && (segment = shmat(id, NULL, 0)) != (void *)-1 && shmdt(segment) == 0, "as before");
    shmctl(id, IPC_RMID, NULL);
}

static void of_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    need(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
    rlim_t soft = of(RLIMIT_SIGPENDING).rlim_cur;
    check(queues(), "a signal can be queued");
    int lowered = lower(RLIMIT_SIGPENDING, 0);
    check(!lowered || (!queues() && errno == EAGAIN), "RLIMIT_SIGPENDING of 0: none can, or it was refused");
    check(kill(getpid(), SIGRTMIN) == 0, "kill can lose what it says");
    check(lower(RLIMIT_SIGPENDING, soft) && queues(), "and then one can again");
}

// Those that the node leaves to Linux, and that on core files (what it does: tests/gdb/core.rs).
static void of_proc(void)
{
    static const struct {
        int resource;
        const char *name;
    } shown[] = {
        {RLIMIT_FSIZE, "Max file size"},          {RLIMIT_CORE, "Max core file size"},
        {RLIMIT_RSS, "Max resident set"},         {RLIMIT_NPROC, "Max processes"},
        {RLIMIT_NOFILE, "Max open files"},        {RLIMIT_LOCKS, "Max file locks"},
        {RLIMIT_MSGQUEUE, "Max msgqueue size"},   {RLIMIT_NICE, "Max nice priority"},
        {RLIMIT_RTPRIO, "Max realtime priority"}, {RLIMIT_RTTIME, "Max realtime timeout"},
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct rlimit before = of(shown[i].resource);
        unsigned long soft = before.rlim_cur > 1000 ? 1000 : before.rlim_cur / 2, told = ~0ul;
        check(lower(shown[i].resource, soft), "another soft limit");
        sscanf(proc_line("/proc/self/limits", shown[i].name), "%lu", &told);
        check(told == soft, "which /proc shows: %s", shown[i].name);
        check(setrlimit(shown[i].resource, &before) == 0, "as before");
    }
}

static volatile sig_atomic_t caught;
static void catch(int signo) { caught = signo; }

static long cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void of_time(void)
{
    struct rlimit after, limit = of(RLIMIT_CPU);
    call("prlimit64");
    signal(SIGXCPU, catch);
    limit.rlim_cur = (rlim_t)(cpu_ns() / 1000000000 + 1);
    check(prlimit(0, RLIMIT_CPU, &limit, NULL) == 0, "a limit on processor time");
    while (!caught && cpu_ns() < (long)(limit.rlim_cur + 5) * 1000000000)
        ;
    // A kernel that counts in ticks takes time that its host stole for the program's.
    check(caught == SIGXCPU && cpu_ns() >= (long)limit.rlim_cur * 100000000, "SIGXCPU when it is used up");
    call("getrlimit");
    need(syscall(SYS_getrlimit, RLIMIT_CPU, &after) == 0, "getrlimit");
    check(after.rlim_cur == limit.rlim_cur + 1, "the next one comes a second later");
    struct rlimit others;
    check(prlimit(getppid(), RLIMIT_CPU, NULL, &others) == 0 && others.rlim_cur == others.rlim_max, "another process's");
    check_fails(prlimit(0x3fffffff, RLIMIT_CPU, NULL, &others), ESRCH, "no process's");
}

// The limit holds against what catches its signal, too.
static void the_end(void)
{
    struct rlimit limit = {(rlim_t)(cpu_ns() / 1000000000 + 1), (rlim_t)(cpu_ns() / 1000000000 + 1)};
    need(setrlimit(RLIMIT_CPU, &limit) == 0, "setrlimit");
    printf("%d checks, %d failed; now SIGKILL\n", check_count, check_failures);
    fflush(stdout);
    while (check_failures == 0)
        ;
}

int main(void)
{
    of_address_space();
    of_memory();
    of_proc();
    of_signals();
    of_time();
    the_end();
    return 1;
}
