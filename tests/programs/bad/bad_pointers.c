// Every system call that takes a pointer, given pointers that cannot be used:
// prints the errno of each ("ok" where Linux accepts it). No call may crash,
// hang, or reach memory that is not the program's.
#include "../common/check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

// Arguments: p the bad pointer, g good memory, s an existing path, l a link,
// f a file, d a directory, k a pipe's end, A AT_FDCWD, n 64, N 4096, 8 the
// size of a signal set, digits themselves, x not usable across a page border.
static const struct {
    const char *name;
    int number;
    const char *arguments;
} calls[] = {
#define CALL(name, arguments) {#name, SYS_##name, arguments}
    CALL(read, "fpnx"), CALL(write, "fpnx"), CALL(pread64, "fpn0x"), CALL(pwrite64, "fpn0x"),
    CALL(readv, "fp1"), CALL(writev, "fp1"), CALL(preadv, "fp10"), CALL(pwritev, "fp10"),
    CALL(open, "p0"), CALL(creat, "p0"), CALL(openat, "Ap0"), CALL(stat, "pg"), CALL(stat, "sp"),
    CALL(lstat, "pg"), CALL(lstat, "sp"), CALL(fstat, "fp"), CALL(newfstatat, "Apg0"), CALL(newfstatat, "Asp0"),
    CALL(statx, "Ap01g"), CALL(statx, "As01p"), CALL(statfs, "pg"), CALL(statfs, "sp"), CALL(fstatfs, "fp"),
    CALL(access, "p0"), CALL(faccessat, "Ap0"), CALL(readlink, "pgn"), CALL(readlink, "lpn"),
    CALL(readlinkat, "Apgn"), CALL(readlinkat, "Alpn"), CALL(getcwd, "pN"), CALL(chdir, "p"), CALL(mkdir, "p0"),
    CALL(mkdirat, "Ap0"), CALL(rmdir, "p"), CALL(unlink, "p"), CALL(unlinkat, "Ap0"), CALL(rename, "ps"),
    CALL(rename, "sp"), CALL(renameat, "ApAs"), CALL(link, "ps"), CALL(link, "sp"), CALL(symlink, "ps"),
    CALL(symlink, "sp"), CALL(chmod, "p0"), CALL(truncate, "p0"), CALL(utimensat, "Ap00"), CALL(utimensat, "Asp0"),
    CALL(getdents64, "dpN"), CALL(pipe, "p"), CALL(pipe2, "p0"), CALL(poll, "p10"), CALL(select, "1p00g"),
    CALL(uname, "p"), CALL(sysinfo, "p"), CALL(times, "p"), CALL(time, "p"), CALL(gettimeofday, "p0"),
    CALL(clock_gettime, "1p"), CALL(clock_getres, "1p"), CALL(nanosleep, "p0"), CALL(clock_nanosleep, "10p0"),
    CALL(getitimer, "0p"), CALL(getrlimit, "7p"), CALL(prlimit64, "070p"), CALL(getrusage, "0p"),
    CALL(getrandom, "pn0x"), CALL(getcpu, "p0"), CALL(sched_getaffinity, "0Np"), CALL(rt_sigpending, "p8"),
    CALL(rt_sigprocmask, "0p08"), CALL(rt_sigprocmask, "00p8"), CALL(rt_sigsuspend, "p8"),
    CALL(sigaltstack, "p0"), CALL(sigaltstack, "0p"), CALL(getresuid, "pgg"),
};
// These need an argument that is not in the letters.
static const struct {
    const char *name;
    long a, b;
    int number;
} special[] = {
    {"rt_sigaction, new", SIGUSR1, 0, SYS_rt_sigaction},
    {"fcntl F_GETLK", -1, F_GETLK, SYS_fcntl},
    {"ioctl FIONREAD", -2, FIONREAD, SYS_ioctl},
    {"arch_prctl GET_FS", 0x1003, 0, SYS_arch_prctl},
};

enum { PLACES = 12, BORDER = 4 };
static int file, directory, pipe_end;
static char good[8192] __attribute__((aligned(64)));

static void show(long result, int error)
{
    if (result == -1)
        printf(" %d", error);
    else
        printf(" ok");
}

static long argument(char letter, uintptr_t bad)
{
    switch (letter) {
    case 'p': return (long)bad;
    case 'g': return (long)good;
    case 's': return (long)"file";
    case 'l': return (long)"link";
    case 'f': return file;
    case 'd': return directory;
    case 'k': return pipe_end;
    case 'A': return AT_FDCWD;
    case 'n': return 64;
    case 'N': return 4096;
    default: return letter - '0';
    }
}

int main(void)
{
    int ends[2];
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    file = open("file", O_CREAT | O_RDWR, 0600);
    need(file >= 0 && symlink("file", "link") == 0 && pipe(ends) == 0, "files");
    directory = open(".", O_RDONLY | O_DIRECTORY);
    pipe_end = ends[0];
    char *p = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED && munmap(p + PAGE_BYTES, PAGE_BYTES) == 0, "mmap");
    need(mprotect(p + 2 * PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0, "mprotect");
    memset(p, 'x', PAGE_BYTES); // at the border: a path that runs into the hole
    need(write(file, p, 100) == 100, "write");

    // Slots 128 to 255 of 512 GiB are where a proxy may have its own memory.
    const uintptr_t places[PLACES] = {0, 8, (uintptr_t)p + PAGE_BYTES, (uintptr_t)p + 2 * PAGE_BYTES,
                                      (uintptr_t)p + PAGE_BYTES - 1, UINT64_C(128) << 39, UINT64_C(200) << 39,
                                      (UINT64_C(254) << 39) + 0x1000, 0x800000000000, 0x8000000000000000,
                                      0xffff800000000000, 0xfffffffffffff000};
    puts("columns: NULL, 8, hole, PROT_NONE, border, slot 128, 200, 254, 2^47, 2^63, kernel, last page");

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const char *letters = calls[i].arguments;
        printf("%-17s %-5s", calls[i].name, letters);
        for (int at = 0; at < PLACES; at++) {
            long a[6] = {0};
            if (at == BORDER && strchr(letters, 'x')) {
                printf(" --");
                continue;
            }
            for (int n = 0; letters[n] && letters[n] != 'x'; n++)
                a[n] = argument(letters[n], places[at]);
            lseek(file, 0, SEEK_SET);
            p[PAGE_BYTES - 1] = 'x'; // calls before may have written there
            long result = syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
            show(result, errno);
        }
        putchar('\n');
        fflush(stdout);
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        printf("%-23s", special[i].name);
        for (int at = 0; at < PLACES; at++) {
            long a = special[i].a == -1 ? file : special[i].a == -2 ? pipe_end : special[i].a, bad = (long)places[at];
            long b = special[i].number == SYS_rt_sigaction || special[i].number == SYS_arch_prctl ? bad : special[i].b;
            show(syscall(special[i].number, a, b, special[i].number == SYS_rt_sigaction ? 0 : bad, 8), errno);
        }
        putchar('\n');
    }
    check(getppid() > 0 && access("file", F_OK) == 0, "the program goes on");
    return check_done();
}
