// Other programs in children: vfork, clone, posix_spawn, system, popen, exec.
// `execs CASE`; the program that is run is this one: `execs as KIND`.
#include "../common/parallel.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;
static char self[PATH_MAX];

// ---- What is run -------------------------------------------------------------

static int as(const char *kind, int argc, char **argv)
{
    sigset_t mask;
    struct sigaction action;
    if (strcmp(kind, "exit") == 0)
        return atoi(argv[3]);
    if (strcmp(kind, "environment") == 0)
        return getenv("CHILD_HAS") == NULL || strcmp(getenv("CHILD_HAS"), argv[3]) != 0;
    if (strcmp(kind, "closed") == 0)
        return fcntl(atoi(argv[3]), F_GETFD) != -1;
    if (strcmp(kind, "open") == 0)
        return fcntl(atoi(argv[3]), F_GETFD) == -1;
    if (strcmp(kind, "arguments") == 0)
        return argc != 6 || strcmp(argv[3], "two words") != 0 || strcmp(argv[4], "") != 0 || strcmp(argv[5], "ü") != 0;
    if (strcmp(kind, "signals") == 0) {
        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigaction(SIGUSR1, NULL, &action);
        int handled = action.sa_handler != SIG_DFL;
        sigaction(SIGTERM, NULL, &action);
        return handled || action.sa_handler != SIG_IGN || !sigismember(&mask, SIGUSR2);
    }
    return 99;
}

static int status_of(pid_t pid)
{
    int status;
    need(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(char *const argv[])
{
    pid_t pid = forked();
    if (pid == 0) {
        execv(self, argv);
        _exit(127);
    }
    return status_of(pid);
}
#define RUN(...) run((char *[]){self, "as", __VA_ARGS__, NULL})

// ---- exec --------------------------------------------------------------------

static void note(int signo) { (void)signo; }

static void exec(void)
{
    char number[16];
    check(RUN("exit", "5") == 5, "a program in a child");
    check(RUN("arguments", "two words", "", "ü") == 0, "its arguments");
    setenv("CHILD_HAS", "this", 1);
    check(RUN("environment", "this") == 0, "its environment");
    int kept = open("/dev/null", O_RDONLY), gone = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(number, sizeof number, "%d", kept);
    check(RUN("open", number) == 0, "descriptors");
    snprintf(number, sizeof number, "%d", gone);
    check(RUN("closed", number) == 0, "and none that are close-on-exec");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    catch_signal(SIGUSR1, note, 0);
    signal(SIGTERM, SIG_IGN);
    check(RUN("signals") == 0, "ignored and blocked signals, no handlers");
}

// What a failed exec says, by the child's status.
static int errno_of(const char *path)
{
    char *argv[] = {"x", NULL};
    pid_t pid = forked();
    if (pid == 0) {
        execv(path, argv);
        _exit(errno);
    }
    return status_of(pid);
}
static void make(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0, path);
    close(fd);
}

static void broken(void)
{
    make("text", "no program\n", 0700);
    make("forbidden", "no program\n", 0600);
    make("broken", "\177ELF\2\1\1", 0700);
    make("script", "#!/no/such/interpreter\n", 0700);
    make("circle", "#!circle\n", 0700);
    make("script.ok", "#!/bin/sh\nexit 6\n", 0700);
    mkdir("directory", 0700);
    symlink("loop", "loop");
    check(errno_of("missing") == ENOENT, "missing");
    check(errno_of("text") == ENOEXEC, "text");
    check(errno_of("forbidden") == EACCES, "not executable");
    check(errno_of("broken") == ENOEXEC, "cut short");
    check(errno_of("script") == ENOENT, "script without interpreter");
    check(errno_of("circle") == ELOOP, "script that interprets itself");
    check(errno_of("directory") == EACCES, "directory");
    check(errno_of("loop") == ELOOP, "link to itself");
    check(errno_of("text/below") == ENOTDIR, "below a file");
    check(errno_of("script.ok") == 6, "script");
    static const char *made[] = {"text", "forbidden", "broken", "script", "circle", "script.ok", "loop"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unlink(made[i]);
    rmdir("directory");
}

static void too_long(void)
{
    size_t bytes = 64 << 20;
    char *huge = malloc(bytes);
    memset(huge, 'x', bytes - 1);
    huge[bytes - 1] = 0;
    pid_t pid = forked();
    if (pid == 0) {
        execv(self, (char *[]){self, huge, NULL});
        _exit(errno);
    }
    check(status_of(pid) == E2BIG, "too long an argument");
}

// ---- vfork -------------------------------------------------------------------

static void vforks(void)
{
    volatile int seen = 0;
    int ends[2];
    char byte;
    need(pipe(ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "pipe");
    pid_t pid = vfork();
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 50 * MS};
        nanosleep(&time, NULL);
        write(ends[1], "x", 1);
        seen = 1;
        _exit(4);
    }
    check(read(ends[0], &byte, 1) == 1, "the parent of vfork waits for the child's end");
    check(seen == 1, "and sees what it has written on the stack");
    check(status_of(pid) == 4, "vfork and exit");
    pid = vfork();
    if (pid == 0) {
        execv(self, (char *[]){self, "as", "exit", "8", NULL});
        _exit(127);
    }
    check(status_of(pid) == 8, "vfork and exec");
    volatile int error = 0;
    pid = vfork();
    if (pid == 0) {
        execv("/no/such", (char *[]){self, NULL});
        error = errno;
        _exit(127);
    }
    check(status_of(pid) == 127 && error == ENOENT, "vfork and exec of nothing");
    pid = vfork();
    if (pid == 0) {
        kill(getpid(), SIGKILL);
        for (;;)
            ;
    }
    check(status_of(pid) == 128 + SIGKILL, "a child of vfork that is killed");
}

// A signal that ends the parent does so while the child of vfork goes on: once the parent waited for the child all the same.
static void vfork_ended(void)
{
    enum { LIMIT_S = 10 };
    if (vfork() == 0) {
        pid_t parent = getppid();
        int64_t end = clock_ns(CLOCK_MONOTONIC) + LIMIT_S * NS_PER_S;
        kill(parent, SIGTERM);
        while (getppid() == parent && clock_ns(CLOCK_MONOTONIC) < end)
            sched_yield();
        if (getppid() == parent)
            write_all(1, "FAIL the parent lives\n", 22);
        _exit(0);
    }
}

static void *vfork_here(void *arg)
{
    for (volatile int i = 0; i < 5; i++) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(i);
        int status;
        if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != i)
            *(int *)arg = 1;
    }
    return NULL;
}

static void vforks_of_threads(void)
{
    pthread_t threads[4];
    int failed = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = start(vfork_here, &failed);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    check(!failed, "threads vfork at the same time");
}

// ---- posix_spawn, system, popen -------------------------------------------------

static void spawn(void)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t pid;
    char *argv[] = {self, "as", "exit", "3", NULL}, *argv_open[] = {self, "as", "open", "77", NULL};
    check(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0 && status_of(pid) == 3, "posix_spawn");
    check(posix_spawn(&pid, "/no/such", NULL, NULL, argv, environ) == ENOENT, "of nothing");
    check_fails(waitpid(-1, NULL, 0), ECHILD, "leaves no child");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 77, "/dev/null", O_RDONLY, 0);
    check(posix_spawn(&pid, self, &actions, NULL, argv_open, environ) == 0 && status_of(pid) == 0, "with file actions");
    posix_spawn_file_actions_addopen(&actions, 78, "/no/such", O_RDONLY, 0);
    check(posix_spawn(&pid, self, &actions, NULL, argv_open, environ) == ENOENT, "with one that fails");
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigemptyset(&set);
    posix_spawnattr_setsigdefault(&attributes, &set);
    sigaddset(&set, SIGUSR2);
    posix_spawnattr_setsigmask(&attributes, &set);
    signal(SIGTERM, SIG_IGN);
    char *argv_signals[] = {self, "as", "signals", NULL};
    check(posix_spawn(&pid, self, NULL, &attributes, argv_signals, environ) == 0 && status_of(pid) == 0,
          "with attributes");
}

static void shell(void)
{
    char line[64] = "";
    check(system(NULL) != 0, "there is a shell");
    check(WEXITSTATUS(system("exit 7")) == 7, "system");
    check(WEXITSTATUS(system("true | false; test $? = 1 && exit 9")) == 9, "with a pipeline");
    FILE *from = popen("echo one; echo two >&2; exit 3", "r");
    check(from != NULL && fgets(line, sizeof line, from) != NULL && strcmp(line, "one\n") == 0, "popen to read");
    check(WEXITSTATUS(pclose(from)) == 3, "its status");
    FILE *to = popen("cat >made", "w");
    check(to != NULL && fputs("text\n", to) >= 0 && pclose(to) == 0, "popen to write");
    from = fopen("made", "r");
    check(from != NULL && fgets(line, sizeof line, from) != NULL && strcmp(line, "text\n") == 0, "what it wrote");
    unlink("made");
}

// ---- clone -------------------------------------------------------------------

// As in linux/sched.h, which musl's compiler does not find.
#define NO_HANDLERS UINT64_C(0x100000000)
#define CLONE_WITH_PIDFD 0x1000
struct args_of_clone {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static long raw_clone(unsigned long flags, void *parent_tid, void *child_tid)
{
    return syscall(SYS_clone, flags, NULL, parent_tid, child_tid, 0);
}

static atomic_int used_signal;
static void note_signal(int signo) { used_signal = signo; }

static void clones(void)
{
    int status, tid = 0, own_tid_word = 0, pidfd = -1;
    catch_signal(SIGUSR1, note_signal, SA_RESTART);
    long pid = raw_clone(SIGUSR1, NULL, NULL);
    if (pid == 0)
        _exit(1);
    check_fails(waitpid((pid_t)pid, &status, 0), ECHILD, "a child with another signal is not waited for as others are");
    check(waitpid((pid_t)pid, &status, __WCLONE) == pid, "but with __WCLONE");
    pid = raw_clone(SIGCHLD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, &tid, &own_tid_word);
    if (pid == 0)
        _exit(own_tid_word == getpid() && tid == 0 ? 0 : 1);
    check(tid == pid && own_tid_word == 0 && status_of((pid_t)pid) == 0, "thread ids are told");
    pid = raw_clone(SIGCHLD | CLONE_WITH_PIDFD, &pidfd, NULL);
    if (pid == 0)
        _exit(11);
    siginfo_t info;
    check(pidfd >= 0 && waitid((idtype_t)3, (id_t)pidfd, &info, WEXITED) == 0 && info.si_status == 11, "a pidfd");
    struct args_of_clone args = {.exit_signal = SIGCHLD, .flags = NO_HANDLERS};
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        _exit(action.sa_handler != SIG_DFL);
    }
    check(status_of((pid_t)pid) == 0, "clone3 without handlers");
    check_fails(raw_clone(SIGCHLD | CLONE_THREAD, NULL, NULL), EINVAL, "a thread without memory");
    check_fails(raw_clone(SIGCHLD | CLONE_SIGHAND, NULL, NULL), EINVAL, "handlers without memory");
    args = (struct args_of_clone){.exit_signal = 65};
    check_fails(syscall(SYS_clone3, &args, sizeof args), EINVAL, "a signal that is none");
    check_fails(raw_clone(SIGCHLD | CLONE_WITH_PIDFD, (void *)8, NULL), EFAULT, "a bad place for a pidfd");
    check_fails(waitpid(-1, NULL, 0), ECHILD, "which leaves no child");
}

// The child goes on with an empty stack: all that it can do is call.
static long clone3_on(struct args_of_clone *args, int (*body)(void *), void *arg)
{
    long result;
    asm volatile("syscall\n\t"
                 "test %%rax, %%rax\n\t"
                 "jnz 1f\n\t"
                 "mov %[arg], %%rdi\n\t"
                 "call *%[body]\n\t"
                 "mov %%eax, %%edi\n\t mov %[exit], %%eax\n\t syscall\n"
                 "1:"
                 : "=a"(result)
                 : "0"(SYS_clone3), "D"(args), "S"(sizeof *args), [body] "r"(body), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
                 : "rcx", "r11", "memory");
    return result;
}

enum { OWN_STACK_BYTES = 64 << 10 };
static char *own_stack;
static int in_parent = 1;
static int runs_there(void *arg)
{
    char here[OWN_STACK_BYTES * 3 / 4];
    in_parent = 0;
    memset(here, 1, sizeof here);
    return here > own_stack && here < own_stack + OWN_STACK_BYTES ? *(int *)arg : 99;
}

// A stack of its own is a private copy, too: once the child has gone, the parent uses the same memory.
static void own_stacks(void)
{
    int status = 21;
    own_stack = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = own_stack + OWN_STACK_BYTES;
    need(own_stack != MAP_FAILED, "mmap");
    check(status_of(clone(runs_there, end, SIGCHLD, &status)) == 21, "clone with a stack");
    check(status_of(clone(runs_there, end, SIGCHLD | CLONE_VFORK, &status)) == 21, "whose caller waits for it");
    struct args_of_clone args = {.exit_signal = SIGCHLD, .stack = (uintptr_t)own_stack, .stack_size = OWN_STACK_BYTES};
    status = 22;
    check(status_of((pid_t)clone3_on(&args, runs_there, &status)) == 22, "clone3 with a stack");
    check(in_parent == 1 && all_bytes(own_stack, 0, OWN_STACK_BYTES / 2), "and nothing of it in the parent");
    args.stack_size = 0;
    check_fails(syscall(SYS_clone3, &args, sizeof args), EINVAL, "a stack of no size");
    args.stack = 0, args.stack_size = OWN_STACK_BYTES;
    check_fails(syscall(SYS_clone3, &args, sizeof args), EINVAL, "a size of no stack");
}

int main(int argc, char **argv)
{
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "readlink");
    unsetenv("MARGAY_TEST_MARK"); // a child would say that it runs on Linux
    if (argc > 2 && strcmp(argv[1], "as") == 0)
        return as(argv[2], argc, argv);
    static const struct test_case cases[] = {
        CASE(exec), CASE(broken), CASE(too_long), CASE(vforks), CASE(vfork_ended), CASE(vforks_of_threads), CASE(spawn),
        CASE(shell), CASE(clones), CASE(own_stacks),
    };
    return RUN_CASES(cases);
}
