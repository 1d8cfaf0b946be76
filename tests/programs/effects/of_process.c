// What the local calls about the process, its ids, cores and memory nodes do.
// Regression: affinity to a core that the rank did not run on, names, flags that were told back differently, policies of
// addresses that are not there were all accepted; ids that stay as they are and questions about other processes were refused.
#include "../common/effects.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

static void identity(void)
{
    struct {
        const char *name, *key;
        int nr, field;
    } ids[] = {{"getpid", "Pid:", SYS_getpid, 0}, {"getppid", "PPid:", SYS_getppid, 0}, {"gettid", "Pid:", SYS_gettid, 0},
               {"getuid", "Uid:", SYS_getuid, 0}, {"geteuid", "Uid:", SYS_geteuid, 1}, {"getgid", "Gid:", SYS_getgid, 0},
               {"getegid", "Gid:", SYS_getegid, 1}};
    long values[4];
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        call(ids[i].name);
        sscanf(proc_line("/proc/self/status", ids[i].key), "%ld %ld", &values[0], &values[1]);
        check(syscall(ids[i].nr) == values[ids[i].field], "as /proc says");
    }
    uid_t r, e, s;
    call("getresuid");
    sscanf(proc_line("/proc/self/status", "Uid:"), "%ld %ld %ld", &values[0], &values[1], &values[2]);
    check(getresuid(&r, &e, &s) == 0 && r == values[0] && e == values[1] && s == values[2], "as /proc says");
    call("getresgid");
    sscanf(proc_line("/proc/self/status", "Gid:"), "%ld %ld %ld", &values[0], &values[1], &values[2]);
    check(getresgid(&r, &e, &s) == 0 && r == values[0] && e == values[1] && s == values[2], "as /proc says");
}

// Whether a call that sets ids was refused, or all ids are those.
static int refused_or(long result, uid_t id)
{
    uid_t r, e, s;
    return (result == -1 && errno == EPERM) || (getresuid(&r, &e, &s) == 0 && r == id && e == id && s == id);
}

// Whether Linux lets this process call setgroups at all: capabilities(7), user_namespaces(7).
static int may_set_groups(void)
{
    enum { CAP_SETGID = 6 };
    char word[8] = "";
    FILE *file = fopen("/proc/self/setgroups", "r");
    int denied = file != NULL && fgets(word, sizeof word, file) != NULL && strncmp(word, "deny", 4) == 0;
    if (file != NULL)
        fclose(file);
    return !denied && strtoull(proc_line("/proc/self/status", "CapEff:"), NULL, 16) >> CAP_SETGID & 1;
}

static void same_ids(void)
{
    uid_t uid = getuid();
    gid_t gid = getgid(), groups[64];
    call("setuid");
    check(syscall(SYS_setuid, uid) == 0, "to what it is");
    check_fails(syscall(SYS_setuid, -1), EINVAL, "to none");
    call("setgid");
    check(syscall(SYS_setgid, gid) == 0, "to what it is");
    call("setreuid");
    check(syscall(SYS_setreuid, uid, -1) == 0, "to what it is");
    call("setregid");
    check(syscall(SYS_setregid, -1, gid) == 0, "to what it is");
    call("setresuid");
    check(syscall(SYS_setresuid, uid, -1, uid) == 0, "to what it is");
    call("setresgid");
    check(syscall(SYS_setresgid, gid, gid, -1) == 0, "to what it is");
    call("setfsuid");
    check(setfsuid(uid) == (int)uid && setfsuid(-1) == (int)uid, "to what it is");
    call("setfsgid");
    check(setfsgid(gid) == (int)gid && setfsgid(-1) == (int)gid, "to what it is");
    call("setgroups");
    int count = getgroups(64, groups);
    need(count >= 0, "getgroups");
    int result = setgroups((size_t)count, groups) == 0 ? 0 : errno;
    check(result == (may_set_groups() ? 0 : EPERM), "to those it has: errno %d, as its capabilities say", result);
    groups[0] = count > 0 && groups[0] == 12345 ? 12346 : 12345;
    if (!may_set_groups())
        check_fails(setgroups(1, groups), EPERM, "to others");
}

// At the end: as the superuser it may work natively.
static void other_ids(void)
{
    check(refused_or(syscall(SYS_setresuid, 12345, 12345, 12345), 12345), "another user, or refused");
}

static void prctls(void)
{
    char name[17] = "";
    call("prctl");
    check(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "of_process") == 0, "the program's name");
    check(strcmp(proc_line("/proc/self/comm", ""), name) == 0, "/proc shows it");
    check(prctl(PR_SET_NAME, "another-name-too-long") == 0 && prctl(PR_GET_NAME, name) == 0, "another name");
    check(strcmp(name, "another-name-to") == 0, "is cut to 15 bytes");
    char task[64];
    snprintf(task, sizeof task, "/proc/self/task/%d/comm", getpid());
    check(strcmp(proc_line("/proc/self/status", "Name:\t"), name) == 0, "/proc shows it as its status");
    check(strcmp(proc_line("/proc/self/comm", ""), name) == 0 && strcmp(proc_line(task, ""), name) == 0, "its name, and its thread's");
    snprintf(task, sizeof task, "%d (%s) ", getpid(), name);
    check(strncmp(proc_line("/proc/self/stat", ""), task, strlen(task)) == 0, "and in its line of figures");
    check_fails(prctl(PR_SET_NAME, 8), EFAULT, "a bad pointer");
    check(prctl(PR_GET_DUMPABLE) == 1, "dumpable at first");
    check(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0, "not dumpable, and told back");
    check(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1, "dumpable again");
    check_fails(prctl(PR_SET_DUMPABLE, 2), EINVAL, "2 is the kernel's");
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs, told back");
    check(atoi(proc_line("/proc/self/status", "NoNewPrivs:")) == 1, "/proc shows it");
    check_fails(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL, "it cannot be taken back");
    check(prctl(PR_GET_SECCOMP) == atoi(proc_line("/proc/self/status", "Seccomp:")), "filters of calls, as /proc says");
    check_fails(prctl(0x3fffffff), EINVAL, "no option");
}

static void registrations(void)
{
    static struct {
        void *next;
        long offset;
        void *pending;
    } head = {&head, 0, NULL}, *told = NULL;
    unsigned long fs = 0x1234, old_fs, length = 0;
    call("arch_prctl");
    need(syscall(SYS_arch_prctl, 0x1003, &old_fs) == 0, "ARCH_GET_FS");
    syscall(SYS_arch_prctl, 0x1001, &fs);
    __asm__ volatile("mov %%gs:0, %0" : "=r"(told));
    check((unsigned long)told == fs, "GS begins where it was set");
    check(old_fs == (unsigned long)__builtin_thread_pointer(), "FS is the thread pointer");
    call("set_robust_list");
    check(syscall(SYS_set_robust_list, &head, sizeof head) == 0, "a list");
    call("get_robust_list");
    check(syscall(SYS_get_robust_list, 0, &told, &length) == 0 && (void *)told == &head && length == 24, "is told back");
    check_fails(syscall(SYS_get_robust_list, 0x3fffffff, &told, &length), ESRCH, "no process's");
    call("set_tid_address");
    check(syscall(SYS_set_tid_address, &fs) == getpid(), "the thread's id");
    call("personality");
    check(syscall(SYS_personality, -1) == 0 && syscall(SYS_personality, 0) == 0, "Linux's");
    call("rseq");
    check_fails(syscall(SYS_rseq, 8, 32, 0, 0), EINVAL, "the C library has registered one");
}

static void cores(void)
{
    cpu_set_t all, one, now;
    int right = 0;
    call("sched_getaffinity");
    check(sched_getaffinity(0, sizeof all, &all) == 0 && CPU_ISSET(sched_getcpu(), &all), "holds the CPU it runs on");
    check(sched_getaffinity(getppid(), sizeof now, &now) == 0 && CPU_COUNT(&now) > 0, "another process's");
    check_fails(sched_getaffinity(0x3fffffff, sizeof now, &now), ESRCH, "no process's");
    call("sched_setaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0)
            right += CPU_ISSET(cpu, &all) && sched_getcpu() == cpu;
        else
            right += errno == EINVAL;
        sched_setaffinity(0, sizeof all, &all);
    }
    check(right == CPU_SETSIZE, "it runs where it was told to, or it was refused");
    check_fails(sched_setaffinity(0x3fffffff, sizeof all, &all), ESRCH, "no process's");
    unsigned cpu = ~0u;
    call("getcpu");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    check(syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 && CPU_ISSET(cpu, &one), "the one it is bound to");
    call("sched_yield");
    check(sched_yield() == 0, "comes back");
    call("membarrier");
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) & MEMBARRIER_CMD_GLOBAL, "knows global ones");
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0, "makes one");
    check_fails(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), EPERM, "one of its own, unregistered");
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0,
          "and registered");
}

static void classes(void)
{
    struct sched_param none = {0}, high = {.sched_priority = 10};
    call("sched_getscheduler");
    check(sched_getscheduler(0) == SCHED_OTHER && sched_getscheduler(getppid()) == SCHED_OTHER, "the usual class");
    check_fails(sched_getscheduler(0x3fffffff), ESRCH, "no process's");
    call("sched_setscheduler");
    check(sched_setscheduler(0, SCHED_OTHER, &none) == 0, "to what it is");
    check(sched_setscheduler(0, SCHED_FIFO, &high) == -1 ? errno == EPERM : sched_getscheduler(0) == SCHED_FIFO,
          "another class, or refused");
    sched_setscheduler(0, SCHED_OTHER, &none);
    check_fails(sched_setscheduler(0x3fffffff, SCHED_OTHER, &none), ESRCH, "no process's");
    check_fails(sched_setscheduler(0x3fffffff, 99, &none), ESRCH, "no process's, to no class");
    check_fails(sched_setscheduler(1, 99, &none), EINVAL, "another process's, to no class");
    check_fails(syscall(SYS_sched_setscheduler, 1, SCHED_OTHER, 8), EFAULT, "another process's, from a bad pointer");
    check_fails(sched_setscheduler(0, SCHED_FIFO, &none), EINVAL, "to one that has priorities, without");
    uint32_t words[12]; // struct sched_attr: bytes, class, flags, nice value
    call("sched_getattr");
    check(syscall(SYS_sched_getattr, 0, words, 48, 0) == 0 && words[1] == SCHED_OTHER && (int)words[4] == nice(0), "as they are");
    call("sched_getparam");
    check(sched_getparam(0, &high) == 0 && high.sched_priority == 0, "no priority");
    call("sched_setparam");
    check(sched_setparam(0, &none) == 0, "to what it is");
    high.sched_priority = 10;
    check_fails(sched_setparam(0, &high), EINVAL, "the class has none");
    call("sched_get_priority_max");
    check(sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_max(SCHED_OTHER) == 0, "as by class");
    call("sched_get_priority_min");
    check(sched_get_priority_min(SCHED_FIFO) == 1 && sched_get_priority_min(SCHED_OTHER) == 0, "as by class");
    call("sched_rr_get_interval");
    struct timespec slice = {-1, -1};
    check(sched_rr_get_interval(0, &slice) == 0 && slice.tv_sec == 0 && slice.tv_nsec >= 0, "less than a second");
    check_fails(syscall(SYS_sched_rr_get_interval, 0, 8), EFAULT, "nowhere to put it");
    check_fails(sched_rr_get_interval(0x3fffffff, &slice), ESRCH, "no process's");
    check(sched_rr_get_interval(getppid(), &slice) == 0, "another process's");
}

static long bind(char *at, int count, int mode, unsigned long nodes)
{
    return syscall(SYS_mbind, at, (size_t)count * PAGE_BYTES, mode, nodes == 0 ? NULL : &nodes, 64, 0);
}

// The policy of an address, or -1; into `nodes` those that it names.
static int policy_at(char *at, unsigned long *nodes)
{
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, nodes, 1024, at, MPOL_F_ADDR) == 0 ? mode : -1;
}

// Regression: a hole in the middle was not seen, and policies of addresses were forgotten.
static void of_addresses(void)
{
    unsigned long told[16] = {0};
    int here = -1;
    char *at = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 1, 4 * PAGE_BYTES);
    call("mbind");
    check(bind(at + PAGE_BYTES, 1, MPOL_BIND | MPOL_F_STATIC_NODES, 1) == 0 &&
              policy_at(at + PAGE_BYTES, told) == (MPOL_BIND | MPOL_F_STATIC_NODES) && told[0] == 1,
          "a policy is told back, with its flags");
    check(policy_at(at, told) == MPOL_DEFAULT && told[0] == 0, "the page before has none, whatever the process's");
    check(bind(at, 4, MPOL_PREFERRED, 0) == 0 && policy_at(at + PAGE_BYTES, told) == MPOL_LOCAL, "another one for all");
    check(syscall(SYS_get_mempolicy, &here, NULL, 0, at, MPOL_F_NODE | MPOL_F_ADDR) == 0 && here == 0, "memory is on node 0");
    check_fails(bind(at, 1, MPOL_LOCAL, 1), EINVAL, "the local node has no name");
    check_fails(bind(at + 1, 1, MPOL_DEFAULT, 0), EINVAL, "the middle of a page");
    munmap(at + PAGE_BYTES, PAGE_BYTES);
    check_fails(bind(at, 4, MPOL_BIND, 1), EFAULT, "a hole");
    check(bind(at, 4, MPOL_DEFAULT, 0) == 0 && policy_at(at + 2 * PAGE_BYTES, told) == MPOL_DEFAULT, "which is no matter for none");
    check_fails(bind(at + PAGE_BYTES, 1, MPOL_DEFAULT, 0), EFAULT, "memory that is not there");
    check(bind(at + PAGE_BYTES, 0, MPOL_DEFAULT, 0) == 0, "nothing");
    call("get_mempolicy");
    check(policy_at(at + PAGE_BYTES, told) == -1 && errno == EFAULT, "an address with nothing there");
    check_fails(syscall(SYS_get_mempolicy, &here, NULL, 0, at, 0), EINVAL, "an address unasked for");
}

// Where the kernel supports memory nodes.
static void nodes(void)
{
    unsigned long node_0 = 1, told[16] = {0};
    int mode = -1;
    call("set_mempolicy");
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) != 0) {
        check(errno == ENOSYS, "get_mempolicy");
        return;
    }
    check(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &node_0, 64) == 0 &&
              syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, MPOL_F_NODE) == 0 && mode == 0,
          "interleaved: node 0 is the next");
    check(syscall(SYS_set_mempolicy, MPOL_BIND, &node_0, 64) == 0 &&
              syscall(SYS_get_mempolicy, &mode, told, 1024, NULL, 0) == 0 && mode == MPOL_BIND && told[0] == 1,
          "a policy is told back");
    check_fails(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, MPOL_F_NODE), EINVAL, "no next node without interleaving");
    check_fails(syscall(SYS_set_mempolicy, MPOL_BIND, NULL, 0), EINVAL, "not of no node");
    of_addresses();
    check(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0) == 0, "and taken back");
}

static void machine(void)
{
    unsigned char random[64] = {0};
    struct utsname name;
    struct sysinfo info;
    call("getrandom");
    check(syscall(SYS_getrandom, random, sizeof random, 0) == 64 && !all_bytes(random, 0, 64), "bytes");
    call("uname");
    check(uname(&name) == 0 && strcmp(name.sysname, "Linux") == 0, "Linux's");
    call("sysinfo");
    check(sysinfo(&info) == 0 && info.totalram >= info.freeram && info.procs > 0, "sizes that make sense");
}

// What a child is seen to be: a process whose file says that this one is its
// parent, and memory that is not this one's.
static void of_fork(void)
{
    volatile int written = 0;
    int status = 0, ends[2], parent = 0;
    char path[64];
    call("fork");
    need(pipe(ends) == 0, "pipe");
    fflush(stdout);
    long pid = syscall(SYS_fork);
    if (pid == 0) {
        written = 1;
        char byte;
        close(ends[1]);
        read(ends[0], &byte, 1);
        _exit(7);
    }
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    sscanf(proc_line(path, "PPid:"), "%d", &parent);
    check(parent == getpid() && written == 0, "a process below this one, with memory of its own");
    close(ends[1]);
    check(waitpid((pid_t)pid, &status, 0) == pid && status == 7 << 8, "that ends when it is told to");
    close(ends[0]);
}

static void of_vfork(void)
{
    volatile int written = 0;
    int status = 0;
    call("vfork");
    fflush(stdout);
    pid_t pid = vfork();
    if (pid == 0) {
        written = 1;
        _exit(8);
    }
    check(written == 1, "the child has run when the parent goes on, on the parent's stack");
    check(waitpid(pid, &status, 0) == pid && status == 8 << 8, "and has ended");
}

// The file of this process says what its arguments are.
static int is_called(const char *by)
{
    char line[256], wanted[256];
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t got = read(fd, line, sizeof line);
    int length = snprintf(wanted, sizeof wanted, "of_process%c%s%c", 0, by, 0);
    close(fd);
    return got == length && memcmp(line, wanted, (size_t)length) == 0;
}

// Becomes this program again, unless something was wrong so far: the new program counts anew.
static void become(const char *by, int by_descriptor)
{
    char *arguments[] = {"of_process", (char *)by, NULL};
    if (check_done() != 0)
        exit(1);
    fflush(stdout);
    if (by_descriptor)
        syscall(SYS_execveat, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "", arguments, environ, AT_EMPTY_PATH);
    else
        syscall(SYS_execve, "/proc/self/exe", arguments, environ);
    need(0, "becoming another program");
}

static void all(void)
{
    identity();
    same_ids();
    prctls();
    registrations();
    classes();
    nodes();
    machine();
    cores();
    other_ids();
    of_fork();
    of_vfork();
    become("by its path", 0);
}

int main(int argc, char **argv)
{
    static int written;
    const char *by = argc > 1 ? argv[1] : "";
    if (argc == 1)
        all();
    int by_path = strcmp(by, "by its path") == 0;
    const char *what = "a program with other arguments, and memory of its own";
    if (by_path) {
        call("execve");
        check(is_called(by) && written == 0, "%s", what);
    } else {
        call("execveat");
        check(is_called(by) && written == 0, "%s", what);
    }
    written = 1;
    if (by_path)
        become("by a descriptor", 1);
    call("exit_group");
    fflush(stdout);
    syscall(SYS_exit_group, check_done());
}
