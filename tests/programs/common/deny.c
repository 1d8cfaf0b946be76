// Runs a program with one system call taken away: `deny NAME PROGRAM ARGS...`
// makes the call return ENOSYS, natively, by seccomp. Used to see that the
// conformance programs notice each tier-1 call (see README.md).
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name) {#name, SYS_##name}

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    CALL(access),      CALL(arch_prctl),      CALL(brk),           CALL(clock_gettime),   CALL(clock_nanosleep),
    CALL(close),       CALL(dup2),            CALL(exit_group),    CALL(fcntl),           CALL(fstat),
    CALL(ftruncate),   CALL(getcwd),          CALL(getdents64),    CALL(getpid),          CALL(getppid),
    CALL(getrandom),   CALL(getrusage),       CALL(gettid),        CALL(getuid),          CALL(ioctl),
    CALL(kill),        CALL(lseek),           CALL(madvise),       CALL(mkdir),           CALL(mmap),
    CALL(mprotect),    CALL(mremap),          CALL(munmap),        CALL(newfstatat),      CALL(open),
    CALL(openat),      CALL(pipe2),           CALL(pread64),       CALL(prlimit64),       CALL(read),
    CALL(readlink),    CALL(readv),           CALL(rename),        CALL(rseq),            CALL(rt_sigaction),
    CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(set_robust_list), CALL(set_tid_address), CALL(sigaltstack),
    CALL(tgkill),      CALL(uname),           CALL(unlink),        CALL(write),           CALL(writev),
};

// The number of a call by its name, or of a name that is a number.
static unsigned number_of(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (*name && !*end)
        return (unsigned)number;
    fprintf(stderr, "deny: no system call named %s is known here; give its number\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: deny NAME|NUMBER PROGRAM [ARGS]\n");
        return 2;
    }
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number_of(argv[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("deny: seccomp");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
