// A random system-call caller: `syscall_fuzz SEED [CALLS]`. Numbers come from a
// list of calls that can neither end the program nor touch anything outside of
// the current directory; arguments from pools of interesting values. It prints
// only that it is still alive and that its own memory is unharmed.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { ARENA_PAGES = 64, CANARY_WORDS = 4096 };
static char *arena;
static uint64_t state, canary[CANARY_WORDS];
static int descriptors[10];

static uint64_t next(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 32) % below;
}
#define PICK(list) (list)[next(sizeof(list) / sizeof((list)[0]))]

// A pointer that is good or bad ('p'), or always bad ('b').
static long pointer(int may_be_good)
{
    static const uint64_t bad[] = {0,
                                   1,
                                   8,
                                   4095,
                                   0x8000000000, // from here on slots that are not the program's
                                   UINT64_C(128) << 39,
                                   (UINT64_C(129) << 39) + 0x7fff,
                                   UINT64_C(200) << 39,
                                   (UINT64_C(254) << 39) + 3,
                                   0x7ffffffff000,
                                   0x800000000000,
                                   0x8000000000000000,
                                   0xffff800000000000,
                                   0xffffffff80000000,
                                   0xfffffffffffff000,
                                   0xffffffffffffffff};
    if (may_be_good && next(3) > 0) {
        uint64_t at = next(ARENA_PAGES) * PAGE_BYTES;
        return (long)(arena + at + (next(2) ? 0 : next(4) ? next(PAGE_BYTES) : PAGE_BYTES - 1 - next(16)));
    }
    // 0x8000000000 is the program's own window on Margay: readable there.
    return (long)(may_be_good ? PICK(bad) : bad[next(2) ? next(4) : 5 + next(11)]);
}

static long number(void)
{
    static const uint64_t values[] = {0, 1, 2, 3, 7, 8, 16, 63, 64, 100, 4095, 4096, 4097, 65536, 1 << 20, 0x7fffffff,
                                      0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, ~0ul,
                                      ~1ul, -4095ul};
    return (long)PICK(values);
}

// A vector of the program's own making: what lies in the arena is what calls left there, and a `struct stat` read as a
// vector has had a device number that was the address of this program's thread area.
static long vector(void)
{
    static struct iovec entries[1024];
    if (next(8) == 0)
        return pointer(0);
    for (int i = 0; i < 8; i++)
        entries[i] = (struct iovec){(void *)pointer(1), (size_t)number()};
    return (long)entries;
}

static const char *const paths[] = {"fz_a", "fz_b", "fz_c", "fz_dir", "fz_dir/x", "fz_a/below", "fz_link", ""};

static long argument(char letter)
{
    static const int requests[] = {FIONREAD, FIOCLEX, FIONCLEX, 0x5401 /* TCGETS */, 0x5413 /* TIOCGWINSZ */, 0x1234567};
    static const int commands[] = {F_DUPFD, F_GETFD, F_GETFL, F_GETLK, F_DUPFD_CLOEXEC, 1030 + 99, -1};
    static const int advice[] = {0, 1, 2, 3, 4, 77};
    static const int codes[] = {0x1003, 0x1004, 0, 77};
    static const int odd_descriptors[] = {-1, 99, 1023, 19999, 99999, 0x7fffffff, -100, (int)0x80000000};
    switch (letter) {
    case 'p': return pointer(1);
    case 'b': return pointer(0);
    case 'n': return number();
    case 'f': return next(4) ? PICK(descriptors) : PICK(odd_descriptors);
    case 'V': return vector();
    case 's': return next(5) ? (long)PICK(paths) : pointer(0);
    case 'A': return next(4) ? AT_FDCWD : PICK(descriptors);
    case 'o': return (long)(next(4) | (next(2) ? O_CREAT : 0) | (next(4) ? O_NONBLOCK : O_NONBLOCK | O_TRUNC | O_APPEND));
    case 'm': return (long)next(01000) | 0600;
    case 'i': return PICK(requests);
    case 'c': return PICK(commands);
    case 'v': return PICK(advice);
    case 'r': return PICK(codes);
    case 'a': return (long)(arena + next(ARENA_PAGES) * PAGE_BYTES);
    case 'l': return (long)(next(8) ? next(4) * PAGE_BYTES : ~0ul); // small, or refused by all
    case 'P': return (long)next(4); // no PROT_EXEC
    case 'F': return MAP_PRIVATE | MAP_ANONYMOUS | (next(2) ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    case 'z': return (long)next(16 << 20);
    case 'u': return (long)(500 + next(4000)) * (next(2) ? 1 : -1);
    default: return letter - '0';
    }
}

static const struct {
    int number;
    const char *arguments;
} calls[] = {
    {SYS_read, "fpn"}, {SYS_write, "fpz"}, {SYS_pread64, "fpnn"}, {SYS_pwrite64, "fpzz"}, {SYS_readv, "fVn"},
    {SYS_preadv, "fVnn"}, {SYS_open, "som"}, {SYS_openat, "Asom"}, {SYS_close, "f"}, {SYS_stat, "sp"}, {SYS_fstat, "fp"},
    {SYS_lstat, "sp"}, {SYS_newfstatat, "Aspn"}, {SYS_statx, "Asnnp"}, {SYS_lseek, "fnn"}, {SYS_access, "sn"},
    {SYS_faccessat, "Asn"}, {SYS_dup, "f"}, {SYS_dup2, "ff"}, {SYS_dup3, "ffn"}, {SYS_fcntl, "fcp"}, {SYS_ioctl, "fip"},
    {SYS_ftruncate, "fz"}, {SYS_truncate, "sz"}, {SYS_getdents64, "fpn"}, {SYS_getcwd, "pn"}, {SYS_rename, "ss"},
    {SYS_mkdir, "sm"}, {SYS_rmdir, "s"}, {SYS_link, "ss"}, {SYS_unlink, "s"}, {SYS_symlink, "ss"}, {SYS_readlink, "spn"},
    {SYS_chmod, "sm"}, {SYS_fchmod, "fm"}, {SYS_umask, "0"}, {SYS_fsync, "f"}, {SYS_statfs, "sp"}, {SYS_fstatfs, "fp"},
    {SYS_pipe, "b"}, {SYS_pipe2, "bn"}, {SYS_poll, "p00"}, {SYS_uname, "p"}, {SYS_sysinfo, "p"}, {SYS_times, "p"},
    {SYS_time, "p"}, {SYS_gettimeofday, "pp"}, {SYS_clock_gettime, "np"}, {SYS_clock_getres, "np"}, {SYS_nanosleep, "bp"},
    {SYS_clock_nanosleep, "nnbp"}, {SYS_getitimer, "np"}, {SYS_getrlimit, "np"}, {SYS_prlimit64, "0nbp"},
    {SYS_getrusage, "np"}, {SYS_getrandom, "pzn"}, {SYS_getcpu, "ppp"}, {SYS_sched_getaffinity, "0np"},
    {SYS_sched_yield, ""}, {SYS_getpid, ""}, {SYS_gettid, ""}, {SYS_getuid, ""}, {SYS_getpgid, "n"}, {SYS_getsid, "n"},
    {SYS_getresuid, "ppp"}, {SYS_getgroups, "np"}, {SYS_rt_sigpending, "pn"}, {SYS_rt_sigprocmask, "nbpn"},
    {SYS_rt_sigaction, "nbpn"}, {SYS_sigaltstack, "bp"}, {SYS_arch_prctl, "rp"}, {SYS_mmap, "alPF00"},
    {SYS_munmap, "al"}, {SYS_mprotect, "alP"}, {SYS_madvise, "alv"}, {SYS_mincore, "alp"}, {SYS_msync, "aln"},
    {SYS_mremap, "all3a"}, {SYS_set_robust_list, "bz"}, {SYS_getpriority, "nn"},
};

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 0) : 20000;
    enum { CALLS = sizeof calls / sizeof calls[0] };
    struct rlimit size = {64 << 20, 64 << 20}; // no file grows beyond 64 MB
    sigset_t all;
    int ends[2];
    state = seed * 2 + 1;
    for (int i = 0; i < CANARY_WORDS; i++)
        canary[i] = seq_word((uint64_t)i);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setrlimit(RLIMIT_FSIZE, &size);
    // Pages of reserve around, so that nothing else is next to the arena.
    arena = mmap(NULL, 4 * ARENA_PAGES * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(arena != MAP_FAILED, "mmap");
    arena += ARENA_PAGES * PAGE_BYTES;
    need(mprotect(arena, ARENA_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
    need(pipe2(ends, O_NONBLOCK) == 0, "pipe2");
    for (int i = 0; i < 10; i++)
        descriptors[i] = i < 2 ? ends[i] : i < 4 ? open(".", O_RDONLY | O_DIRECTORY) : open(paths[i % 3], O_CREAT | O_RDWR, 0600);

    for (uint64_t i = 0; i < count; i++) {
        long a[6] = {0};
        if (next(50) == 0) { // a number that is no call
            syscall(argument('u'), argument('p'), argument('n'), argument('p'), argument('n'));
            continue;
        }
        size_t c = next(CALLS);
        for (int n = 0; calls[c].arguments[n]; n++)
            a[n] = argument(calls[c].arguments[n]);
        syscall(calls[c].number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    printf("seed %llu, %llu calls\n", (unsigned long long)seed, (unsigned long long)count);
    check(seq_matches(canary, 0, CANARY_WORDS), "the program's own memory is unharmed");
    check(write(1, "", 0) == 0 && getppid() > 0, "and it goes on");
    return check_done();
}
