// Restartable sequences (rseq(2)): a critical section that a signal or another thread interrupts starts again at its abort
// address, and what cannot be a section ends the program by SIGSEGV. Built with musl, which registers no area of its own.
#include "../common/parallel.h"

#define SIGNATURE 0x53053053

// struct rseq and struct rseq_cs (include/uapi/linux/rseq.h).
static struct {
    uint32_t cpu_start, cpu;
    uint64_t section;
    uint32_t flags, rest[3];
} __attribute__((aligned(32))) area;
static struct {
    uint32_t version, flags;
    uint64_t start, len_bytes, abort;
} __attribute__((aligned(32))) section;

// Makes the call `nr` in the critical section. Returns 1 when that was interrupted and went on at the abort address, which
// the signature stands in front of; 2 when it went on behind the call.
long in_section(long nr, long a, long b, uint64_t of_area, uint64_t *pointer);
extern char section_start[], section_end[], section_abort[];
__asm__(".text\n"
        "in_section: movq %rdi, %rax; movq %rsi, %rdi; movq %rdx, %rsi\n"
        "movq %rcx, (%r8)\n"
        "section_start: syscall\n"
        "nop\n"
        "section_end: movl $2, %eax\n"
        "ret\n"
        ".long 0x53053053\n"
        "section_abort: movl $1, %eax\n"
        "ret\n"
        ".long 0\n"
        "unsigned_abort: ret\n");
extern char unsigned_abort[];

// The same for a critical section that computes for so many turns, and makes no call.
long in_loop(uint64_t turns, uint64_t of_area, uint64_t *pointer);
extern char loop_start[], loop_end[], loop_abort[];
__asm__(".text\n"
        "in_loop: movq %rsi, (%rdx)\n"
        "loop_start: decq %rdi\n"
        "jnz loop_start\n"
        "loop_end: movl $2, %eax\n"
        "ret\n"
        ".long 0x53053053\n"
        "loop_abort: movl $1, %eax\n"
        "ret\n");

static volatile sig_atomic_t handled;
static void count(int signo) { handled += signo == SIGUSR1; }

// As the first case of a process finds it: sweeps run several in one.
static void set_up(void)
{
    const int unregister = 1; // RSEQ_FLAG_UNREGISTER
    syscall(SYS_rseq, &area, sizeof area, unregister, SIGNATURE);
    memset(&area, 0, sizeof area);
    memset(&section, 0, sizeof section);
    handled = 0;
    signal(SIGUSR1, count);
    need(syscall(SYS_rseq, &area, sizeof area, 0, SIGNATURE) == 0, "rseq");
    section.start = (uintptr_t)section_start;
    section.len_bytes = (uint64_t)(section_end - section_start);
    section.abort = (uintptr_t)section_abort;
}

static long interrupted(void) { return in_section(SYS_tkill, syscall(SYS_gettid), SIGUSR1, (uintptr_t)&section, &area.section); }

static void restarts(void)
{
    set_up();
    check(interrupted() == 1 && handled == 1, "a signal in the section: it starts again after the handler");
    check(area.section == 0, "and is left");
}

static void outside(void)
{
    set_up();
    area.section = (uintptr_t)&section;
    raise(SIGUSR1);
    check(handled == 1 && area.section == 0, "a signal elsewhere: what the area points to is left");
    // The end is not part of it.
    section.len_bytes = 2;
    check(interrupted() == 2 && handled == 2, "a signal behind the section: it does not start again");
}

// ---- Preempted by the other thread of a core ------------------------------

static atomic_int over;
static void *yield(void *arg)
{
    while (!atomic_load(&over))
        sched_yield();
    return arg;
}

// Computes in the section, for longer than a slice of the core, until it was interrupted there.
static long preempted(void)
{
    const uint64_t turns = 1 << 23;
    section.start = (uintptr_t)loop_start;
    section.len_bytes = (uint64_t)(loop_end - loop_start);
    section.abort = (uintptr_t)loop_abort;
    cpu_set_t one;
    need(sched_getaffinity(0, sizeof one, &one) == 0, "sched_getaffinity");
    int cpu = 0;
    while (!CPU_ISSET(cpu, &one))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    pthread_t other;
    atomic_store(&over, 0);
    need(pthread_create(&other, NULL, yield, NULL) == 0, "pthread_create");
    int64_t end = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;
    long how;
    do
        how = in_loop(turns, (uintptr_t)&section, &area.section);
    while (how != 1 && clock_ns(CLOCK_MONOTONIC) < end);
    atomic_store(&over, 1);
    pthread_join(other, NULL);
    return how;
}

static void yields(void)
{
    set_up();
    check(preempted() == 1, "another thread ran: the section starts again");
}

static void yields_bad(void)
{
    set_up();
    section.version = 1;
    preempted();
}

// ---- In memory that is changed meanwhile ----------------------------------

// A thread that goes to another processor has its area written before it goes on there. Another thread maps over that, which it waits
// for. A signal that comes just then is handled all the same: once nobody looked at it until the thread made its next call.
enum { ROUNDS = 10, OVER_BYTES = 32 << 20 };
static char *around;
static int zeros_fd;
static _Atomic pid_t runner_tid;
static atomic_int runner_over, mapped;
static atomic_ulong beats;
static word_t mapping;
static void *run_without_calls(void *arg)
{
    need(syscall(SYS_rseq, around, sizeof area, 0, SIGNATURE) == 0, "rseq");
    runner_tid = own_tid();
    while (!runner_over)
        beats++;
    return arg;
}
static void *map_over(void *arg)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (mapping != round)
            futex_wait(&mapping, round - 1);
        void *at = mmap(around, OVER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, zeros_fd, 0);
        need(at == around, "mmap");
        mapped = (int)round;
    }
    return arg;
}
static void move_on(const cpu_set_t *all, int *cpu)
{
    cpu_set_t one;
    do
        *cpu = (*cpu + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(*cpu, all));
    CPU_ZERO(&one);
    CPU_SET(*cpu, &one);
    need(sched_setaffinity(runner_tid, sizeof one, &one) == 0, "sched_setaffinity");
}
static void mapped_over(void)
{
    cpu_set_t all;
    int cpu = -1;
    need(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    runner_tid = runner_over = mapped = 0;
    handled = 0;
    mapping = 0;
    signal(SIGUSR1, count);
    zeros_fd = memfd_create("zeros", 0);
    need(zeros_fd >= 0 && ftruncate(zeros_fd, OVER_BYTES) == 0, "memfd_create");
    around = mmap(NULL, OVER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(around != MAP_FAILED, "mmap");
    pthread_t runner = start(run_without_calls, NULL), mapper = start(map_over, NULL);
    AWAIT(runner_tid);
    for (int round = 1; round <= ROUNDS; round++) {
        mapping = (uint32_t)round;
        futex_wake(&mapping, 1);
        // Until it stands still for a while, or nothing is in its way any more.
        unsigned long before;
        do {
            move_on(&all, &cpu);
            before = beats;
            for (volatile int spin = 0; spin < 1000000 && before == beats && mapped != round; spin++)
                ;
        } while (before != beats && mapped != round);
        signal_thread(runner_tid, SIGUSR1);
        AWAIT(mapped == round);
        AWAIT(handled == round);
    }
    check(handled == ROUNDS, "each of %d signals is handled while the area is mapped over", ROUNDS);
    runner_over = 1;
    joined(runner);
    joined(mapper);
    munmap(around, OVER_BYTES);
    close(zeros_fd);
}

// ---- What ends the program ------------------------------------------------

#define ENDS(name, change)                                                                                             \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        set_up();                                                                                                      \
        change;                                                                                                        \
        check(interrupted() < 0, "the program goes on");                                                               \
    }
ENDS(version, section.version = 1)
ENDS(flags, section.flags = 1)
ENDS(area_flags, area.flags = 8)
ENDS(abort_inside, section.len_bytes = (uint64_t)(section_abort + 1 - section_start)) // the signature stands in front of it all the same
ENDS(abort_above, section.abort = UINT64_C(1) << 47)
ENDS(abort_kernel, section.abort = UINT64_C(0xffff800000000000))
ENDS(abort_low, section.abort = 2)
ENDS(unsigned_, section.abort = (uintptr_t)unsigned_abort)
ENDS(start_above, section.start = UINT64_C(1) << 47)
ENDS(wraps, section.len_bytes = -section.start + 1)

static void unreadable(void)
{
    set_up();
    check(in_section(SYS_tkill, syscall(SYS_gettid), SIGUSR1, 8, &area.section) < 0, "the program goes on");
}

// ---- With a handler for SIGSEGV -------------------------------------------

static void caught(int signo, siginfo_t *info, void *context)
{
    const ucontext_t *at = context;
    void *ip = (void *)(uintptr_t)at->uc_mcontext.gregs[REG_RIP];
    check(signo == SIGSEGV && info->si_code == SI_KERNEL && info->si_addr == NULL, "signal %d, code %d", signo, info->si_code);
    check(ip == (void *)(uintptr_t)count && handled == 0, "it comes before the first instruction of the other handler");
    check(area.section == 0, "the section is left");
    int failed = check_done();
    fflush(stdout);
    _exit(failed ? 1 : 3);
}

// The section is bad when SIGUSR1 comes, whose handler is entered all the same. When SIGSEGV is delivered there it is none that is
// interrupted, and so not looked at: SIGSEGV is handled as any. (What cannot be read as a section is bad still then. Versions of
// Linux differ in what follows.)
#define CATCHES(name, change)                                                                                          \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        set_up();                                                                                                      \
        struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};                                    \
        need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");                                                     \
        change;                                                                                                        \
        check(interrupted() < 0, "the program goes on");                                                               \
    }
CATCHES(caught_flags, section.flags = 1)
CATCHES(caught_area_flags, area.flags = 8)

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(restarts),     CASE(outside),           CASE(yields),       CASE(yields_bad), CASE(version),
        CASE(flags),        CASE(area_flags),        CASE(abort_inside), CASE(abort_above), CASE(abort_kernel),
        CASE(abort_low),    CASE(unsigned_),         CASE(start_above),  CASE(wraps),      CASE(unreadable),
        CASE(caught_flags), CASE(caught_area_flags), CASE(mapped_over),
    };
    return RUN_CASES(cases);
}
