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

// Regression: a limit could not be lowered (EPERM), with which programs find out how they do without memory.
static void of_stack(void)
{
    struct rlimit before = of(RLIMIT_STACK);
    need(stack_reaches(1 << 10), "a stack");
    check(lower(RLIMIT_STACK, 256 << 10) && !stack_reaches(1 << 20), "RLIMIT_STACK of 256 KiB: 1 MiB is too deep");
    check(lower(RLIMIT_STACK, 16 << 10) && stack_reaches(1 << 10), "what is in use stays");
    check(setrlimit(RLIMIT_STACK, &before) == 0 && stack_reaches(1 << 20), "as before");
}

static void of_locks(void)
{
    char page[2 * PAGE_BYTES];
    struct rlimit before = of(RLIMIT_MEMLOCK);
    int may = geteuid() == 0;
    check(lower(RLIMIT_MEMLOCK, 0) && (may || (mlock(page, sizeof page) != 0 && errno == EPERM)), "RLIMIT_MEMLOCK of 0: no lock");
    check(may || (mlockall(MCL_CURRENT) != 0 && errno == EPERM), "of all memory neither");
    check(lower(RLIMIT_MEMLOCK, PAGE_BYTES) && (may || (mlock(page, sizeof page) != 0 && errno == ENOMEM)), "of a page: not of more");
    char *at = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    check(may || (at == MAP_FAILED && errno == EAGAIN), "nor when it is mapped");
    at = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mlock(at, PAGE_BYTES) == 0 && mlock(at, PAGE_BYTES) == 0, "but of one, twice");
    check(munmap(at, PAGE_BYTES) == 0 && setrlimit(RLIMIT_MEMLOCK, &before) == 0, "as before");
}

// Private memory that is made writable, or longer, counts as well.
static void of_data(void)
{
    enum { MUCH = 48 << 20 };
    struct rlimit before = of(RLIMIT_DATA);
    char *at = mmap(NULL, MUCH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *one = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED && one != MAP_FAILED && lower(RLIMIT_DATA, 8 << 20), "memory");
    check_fails(mprotect(at, MUCH, PROT_READ | PROT_WRITE), ENOMEM, "RLIMIT_DATA of 8 MiB: not when it is made writable");
    check(mremap(one, PAGE_BYTES, MUCH, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM, "nor longer");
    char *shared = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED && munmap(shared, MUCH) == 0, "shared memory does not count");
    long end = syscall(SYS_brk, 0);
    check(lower(RLIMIT_DATA, 0) && syscall(SYS_brk, end + PAGE_BYTES) == end, "of 0: the heap does not grow");
    check(maps(MUCH), "but mappings may: Linux lets them");
    check(setrlimit(RLIMIT_DATA, &before) == 0 && mprotect(at, MUCH, PROT_READ | PROT_WRITE) == 0, "as before");
    munmap(at, MUCH);
    munmap(one, PAGE_BYTES);
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
        check(set && !maps(48 << 20), "%s of %d MiB: 48 MiB are not to be had", limits[i].name,
              (int)(limits[i].soft >> 20));
        check(setrlimit(limits[i].resource, &before) == 0 && maps(48 << 20), "and are again");
    }
    of_data();
    of_stack();
    of_locks();
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
    int shown = prlimit(getppid(), RLIMIT_CPU, NULL, &others) == 0;
    check(shown ? others.rlim_cur == others.rlim_max : errno == EPERM, "another process's, or another user's");
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
