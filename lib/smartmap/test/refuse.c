/*
 * refuse memfd|cma|madvise|mincore PROGRAM ARGS: run a program under a seccomp
 * profile in which memfd_create, or process_vm_readv and writev, or madvise (huge
 * pages, punching out) fail with EPERM, or mincore tells nothing.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 125;
    int memfd = strcmp(argv[1], "memfd") == 0, cma = strcmp(argv[1], "cma") == 0;
    int mincore = strcmp(argv[1], "mincore") == 0;
    unsigned call = memfd ? ~0U : cma ? SYS_process_vm_readv : mincore ? SYS_mincore : SYS_madvise;
    /* memfd_create(2): flags is the second argument; the arena asks for
     * sealing (MFD_ALLOW_SEALING, 2), the test harness's board does not. */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, memfd ? SYS_memfd_create : ~0U, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 2, 2, 3),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, cma ? SYS_process_vm_writev : ~0U, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (mincore ? 0 : EPERM)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse");
        return 125;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 126;
}
