// Random system calls: `calls SEED CALLS`. All numbers that there are and some that there are not, with arguments that are
// good, wild, straddle the end of what is mapped, lie in windows, in the kernel's half, in the clock page or in memory that
// other calls are changing. Meanwhile a second thread moves about what the arguments point to. It must not be run but as a
// user that owns nothing but the current directory.
//
// Whatever a call does to it as requested is undone at once (masks, handlers, descriptors, memory), so that each
// next call finds the program whole; then its own memory must be unharmed, its clock goes on, and Linux answers.
// A timer ends the calls that wait. What is left out, and why, says `left_out`.
#define _GNU_SOURCE
#include "calls.h"

#include <pthread.h>

// Undoing.

static void on_signal(int signo) { ticks += signo == SIGALRM; }

// All that can be caught and that no fault of the program raises.
static void set_handler(uint64_t signo)
{
    struct action action = ACTION(on_signal);
    if (signo - 1 < 64 && !((1ul << SIGSEGV | 1ul << SIGBUS | 1ul << SIGILL | 1ul << SIGFPE | 1ul << SIGTRAP | 1ul << SIGKILL | 1ul << SIGSTOP) >> signo & 1))
        CALL(SYS_rt_sigaction, signo, &action, 0, 8);
}

static void set_mask(uint64_t mask) { CALL(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8); }

static void set_timer(void)
{
    struct itimerval every = {{0, TICK_US}, {0, TICK_US}};
    must(CALL(SYS_setitimer, ITIMER_REAL, &every, 0) == 0);
}

static void make_holes(void)
{
    // A call may have set mlockall(MCL_FUTURE) and a low RLIMIT_MEMLOCK: then mmap is EAGAIN.
    CALL(SYS_munlockall);
    long at = CALL(SYS_mmap, holes, 14 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at != (long)holes)
        fail("cannot reserve the holes again", at);
    CALL(SYS_mprotect, holes, HOLE_PAGES / 2 * PAGE, PROT_READ | PROT_WRITE);
    CALL(SYS_mprotect, holes + HOLE_PAGES / 2 * PAGE, 8 * PAGE, PROT_READ);
}

// Another rank may just have closed the directory.
static void go_home(void)
{
    long gone = -1;
    for (int tries = 0; tries < 10000 && gone != 0; tries++) {
        CALL(SYS_fchmod, HOME, 0700);
        gone = CALL(SYS_fchdir, HOME);
    }
    if (gone != 0)
        fail("fchdir", gone);
}

static int is_elsewhere(long result) { return result > 0 && (result < (long)reserve || result >= (long)(reserve + 16 * GIB)); }

static void undo(uint64_t number, const long *a, long result)
{
    int tells_addresses = 0;
    switch (number) {
    case SYS_rt_sigaction:
        set_handler((uint32_t)a[0]);
        set_timer(); // once ignored it stands still
        tells_addresses = 1;
        break;
    case SYS_arch_prctl: CALL(SYS_arch_prctl, ARCH_SET_FS, fs_base); tells_addresses = 1; break;
    case SYS_sigaltstack: case SYS_prctl: case SYS_get_robust_list: tells_addresses = 1; break;
    case SYS_alarm: case SYS_setitimer: set_timer(); break;
    case SYS_chmod: case SYS_fchmod: case SYS_fchmodat: CALL(SYS_fchmod, HOME, 0700); break;
    case SYS_chdir: case SYS_fchdir: go_home(); break;
    case SYS_umask: CALL(SYS_umask, 0); break;
    case SYS_mmap: case SYS_mremap:
        if (is_elsewhere(result))
            CALL(SYS_munmap, result, a[number == SYS_mmap ? 1 : 2]);
        break;
    case SYS_shmget: CALL(SYS_shmctl, result, IPC_RMID, 0); break;
    case SYS_shmctl: CALL(SYS_shmctl, a[0], IPC_RMID, 0); break;
    case SYS_shmat:
        CALL(SYS_shmctl, a[0], IPC_RMID, 0);
        if (is_elsewhere(result))
            CALL(SYS_shmdt, result);
        break;
    default: break;
    }
    set_mask(0);
    if (tells_addresses) // of the program itself, which is no buffer
        fill_data();
}

static void open_descriptors(void)
{
    static const uint32_t of_no_file[] = {SYS_eventfd, SYS_epoll_create1, SYS_inotify_init, SYS_timerfd_create};
    CALL(SYS_close_range, 0, DESCRIPTORS_END - 1, 0);
    for (int fd = 0; fd < 3; fd++)
        CALL(SYS_dup2, QUIET, fd);
    int32_t pair[2];
    CALL(SYS_pipe2, pair, 0);
    CALL(SYS_socketpair, 1, 1, 0, pair);
    CALL(SYS_open, ".", O_RDONLY | O_DIRECTORY, 0);
    for (int i = 0; i < 3; i++)
        CALL(SYS_open, paths[i], O_CREAT | O_RDWR, 0600);
    CALL(SYS_open, "/dev/zero", O_RDWR, 0);
    CALL(SYS_open, "/proc/self/maps", O_RDONLY, 0);
    for (size_t i = 0; i < sizeof of_no_file / sizeof *of_no_file; i++)
        CALL(of_no_file[i], 0, 0);
    CALL(SYS_memfd_create, "fz", 0);
    CALL(SYS_socket, 2, 1, 0);
    CALL(SYS_mkdir, "fz_dir", 0700);
    CALL(SYS_mknod, "fz_fifo", 010600, 0);
}

// The node, the rank and its Linux go on.
static void check_all(void)
{
    static struct timespec before, now;
    int32_t ends[2];
    long base = 0;
    uint64_t sent = next(~0u), seen = 0;
    must(CALL(SYS_getpid) == own_pid && CALL(SYS_gettid) == own_pid);
    must(CALL(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base == fs_base);
    must(CALL(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
    must(now.tv_sec > before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec));
    before = now;
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        if (canary[i] != word(i))
            fail("its own memory was changed at word", (long)i);
    long made = CALL(SYS_pipe2, ends, 0);
    if (made != 0)
        fail("pipe2", made);
    must(CALL(SYS_write, ends[1], &sent, 8) == 8 && CALL(SYS_read, ends[0], &seen, 8) == 8 && seen == sent);
    must(CALL(SYS_fcntl, OUT, F_GETFD) >= 0);
}

static uint64_t any_number(void)
{
    static const uint64_t none[] = {512, 513, 1000, 0x40000000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x8000000000000000, ~0ul};
    switch (next(12)) {
    case 0: return PICK(none) + next(2) * next(NUMBERS);
    case 1: return PICK(changes_memory);
    default: return next(NUMBERS);
    }
}

// Who serves a call, and what its arguments are.
static uint64_t kind_of(uint64_t number)
{
    static const uint32_t of_node[] = {SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_sigaltstack, SYS_clock_gettime, SYS_clock_getres,
                                       SYS_gettimeofday, SYS_times, SYS_getrusage, SYS_getitimer, SYS_sched_yield, SYS_sched_getaffinity, SYS_uname};
    static const uint32_t of_paths[] = {SYS_open, SYS_openat, SYS_creat, SYS_stat, SYS_lstat, SYS_newfstatat, SYS_statx, SYS_access, SYS_faccessat,
                                        SYS_readlink, SYS_readlinkat, SYS_mkdir, SYS_rmdir, SYS_rename, SYS_link, SYS_symlink, SYS_unlink, SYS_chmod, SYS_chdir, SYS_utimensat};
    static const uint32_t moves[] = {SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_sendto, SYS_recvfrom,
                                     SYS_getdents64, SYS_getrandom, SYS_getcwd, SYS_poll, SYS_epoll_ctl, SYS_ioctl, SYS_pipe, SYS_pipe2};
    if (is_in(changes_memory, sizeof changes_memory / sizeof *changes_memory, number))
        return OF_MEMORY;
    if (is_in(of_node, sizeof of_node / sizeof *of_node, number))
        return OF_NODE;
    if (is_in(of_paths, sizeof of_paths / sizeof *of_paths, number))
        return OF_PATHS;
    return is_in(moves, sizeof moves / sizeof *moves, number) ? TRANSFERS : OTHERS;
}

static void one_call(void)
{
    // What kinds of arguments a call liked; else most would fail at once.
    static uint8_t liked[NUMBERS][6], is_liked[NUMBERS];
    uint8_t kinds[6];
    long a[6];
    uint64_t whole = any_number(), number = (uint32_t)whole; // what Linux looks at
    if (left_out(number))
        return;
    int known = number < NUMBERS && is_liked[number] && next(2);
    for (int i = 0; i < 6; i++) {
        kinds[i] = known ? liked[number][i] : (uint8_t)next(KINDS);
        a[i] = argument(kinds[i]);
    }
    tame(number, a);
    if (number == SYS_rt_sigaction)
        set_mask(~0ul); // until its handler is back
    unsigned slot = calls_made++ % 8;
    last[slot].number = whole;
    memcpy(last[slot].args, a, sizeof a);
    long result = raw(whole, a[0], a[1], a[2], a[3], a[4], a[5]);
    last[slot].result = result;
    undo(number, a, result);
    int good = result >= 0 || result < -4095;
    calls_good += good;
    good_of[kind_of(number)] += good;
    if (good && number < NUMBERS) {
        is_liked[number] = 1;
        memcpy(liked[number], kinds, sizeof kinds);
    }
    calls_interrupted += result == -4;
    if (result <= -512 && result >= -530)
        fail("an errno of the kernel's own", result);
}

// Words of `data` go elsewhere in it while calls run: what a call has looked at may be another thing when it is used. It takes
// no signals: those are to end the first thread's waits.
static void *race(void *unused)
{
    enum { WORDS = DATA_PAGES * PAGE / 8 };
    volatile uint64_t *words = (volatile uint64_t *)data;
    const struct timespec pause = {0, 50000}; // the proxy needs the host's cores, too
    uint64_t mine = state ^ 0x5deece66d;
    for (;; words_moved += MOVED_WORDS) {
        for (int i = 0; i < MOVED_WORDS; i++) {
            uint64_t to = draw(&mine) % WORDS;
            words[to] = words[(mine >> 48) % WORDS];
        }
        CALL(SYS_nanosleep, &pause, NULL);
    }
    return unused;
}

// Its stack is where no call changes memory.
static void start_race(void)
{
    static char stack[65536] __attribute__((aligned(64)));
    pthread_attr_t attributes;
    pthread_t thread;
    set_mask(~0ul);
    must(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, sizeof stack) == 0);
    must(pthread_create(&thread, &attributes, race, NULL) == 0);
}

static void prepare(void)
{
    struct rlimit size = {FILE_LIMIT, FILE_LIMIT};
    own_pid = CALL(SYS_getpid);
    must(CALL(SYS_arch_prctl, ARCH_GET_FS, &fs_base) == 0);
    heap_end = CALL(SYS_brk, 0);
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        canary[i] = word(i);
    must(CALL(SYS_dup2, 1, OUT) == OUT);
    long home = CALL(SYS_open, ".", O_RDONLY | O_DIRECTORY, 0), quiet = CALL(SYS_open, "/dev/null", O_RDWR, 0);
    must(CALL(SYS_dup2, home, HOME) == HOME && CALL(SYS_dup2, quiet, QUIET) == QUIET);
    must(CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, &size, 0) == 0);
    reserve = mmap(NULL, 16 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(reserve != MAP_FAILED);
    data = reserve + GIB;
    holes = reserve + 2 * GIB;
    must(mprotect(data, DATA_PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    for (uint64_t signo = 1; signo <= 64; signo++)
        set_handler(signo);
    fill_data();
    start_race();
    set_mask(0);
    set_timer();
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    const char *rank = getenv("MARGAY_RANK");
    state = (seed << 8 | (rank ? strtoull(rank, NULL, 10) : 0)) * 2 + 1;
    prepare();
    while (calls_made < count) {
        make_holes();
        open_descriptors();
        fill_data();
        for (int i = 0; i < BURST; i++)
            one_call();
        check_all();
    }
    const struct {
        uint64_t count;
        const char *what;
    } counts[] = {
        {calls_made, "calls"},           {good_of[OF_MEMORY], "successes of memory"}, {good_of[OF_NODE], "successes of the node"},
        {good_of[OF_PATHS], "successes of paths"}, {good_of[TRANSFERS], "successes of transfers"},  {calls_interrupted, "interruptions"},
        {ticks, "ticks"},                {words_moved, "words moved"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        dprintf(OUT, "%llu %s\n", (unsigned long long)counts[i].count, counts[i].what);
    return 0;
}
