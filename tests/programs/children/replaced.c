// A program that becomes another: what it begins with, what stays and what goes. See replaced.h.
#include "replaced.h"

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

// ---- What a program begins with ------------------------------------------------

static void begins(void)
{
    const unsigned char *r = (const unsigned char *)getauxval(AT_RANDOM);
    environ = (char *[]){"ONE=1", "", "TWO=2", NULL};
    char *random = text("%02x%02x%02x%02x%02x%02x%02x%02x", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
    symlink(self, "another name");
    execv("./another name", (char *[]){"replaced", "as", "begins", random, "", "two words", NULL});
    need(0, "execv");
}
static void as_begins(int argc, char **argv)
{
    char line[512], random[17];
    const unsigned char *r = (const unsigned char *)getauxval(AT_RANDOM);
    unlink("another name");
    check(argc == 6 && strcmp(argv[0], "replaced") == 0 && argv[4][0] == 0 && strcmp(argv[5], "two words") == 0, "arguments");
    check(strcmp(environ[0], "ONE=1") == 0 && environ[1][0] == 0 && strcmp(environ[2], "TWO=2") == 0 && environ[3] == NULL,
          "environment");
    check(strcmp((const char *)getauxval(AT_EXECFN), "./another name") == 0, "the path that it was started by");
    for (int i = 0; i < 8; i++)
        snprintf(random + 2 * i, 3, "%02x", r[i]);
    check(strcmp(random, argv[3]) != 0, "other random bytes");
    check(getauxval(AT_SECURE) == 0 && getauxval(AT_PAGESZ) == PAGE_BYTES && getauxval(AT_UID) == getuid(), "auxiliary vector");
    check(prctl(PR_GET_NAME, line) == 0 && strcmp(line, "another name") == 0, "its name");
    size_t got = contents("/proc/self/cmdline", line, sizeof line);
    check(got == strlen(argv[3]) + 31 && memcmp(line, "replaced\0as\0begins", 19) == 0, "its arguments in /proc");
    got = contents("/proc/self/environ", line, sizeof line);
    check(got == 13 && memcmp(line, "ONE=1\0\0TWO=2", 13) == 0, "its environment in /proc");
    got = (size_t)readlink("/proc/self/exe", line, sizeof line);
    check(got == strlen(self) && memcmp(line, self, got) == 0, "its file in /proc");
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    check(clock_ns(CLOCK_MONOTONIC) >= before, "a clock");
    char *heap = (char *)syscall(SYS_brk, 0);
    check((char *)syscall(SYS_brk, heap + PAGE_BYTES) == heap + PAGE_BYTES && can_write(heap), "a heap");
}

// ---- What stays ------------------------------------------------------------

static void note(int signo) { (void)signo; }

static void stays(void)
{
    sigset_t set;
    stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigemptyset(&set);
    for (int signo = 10; signo <= 40; signo++)
        if (signo != SIGKILL && signo != SIGSTOP && signo != SIGTERM && signo != SIGALRM)
            sigaddset(&set, signo);
    sigprocmask(SIG_SETMASK, &set, NULL);
    catch_signal(SIGTERM, note, SA_NODEFER);
    catch_signal(SIGCHLD, note, SA_NOCLDWAIT);
    signal(SIGHUP, SIG_IGN);
    need(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    raise(SIGUSR1);
    sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 7});
    struct itimerval interval = {.it_value.tv_sec = 1000};
    setitimer(ITIMER_REAL, &interval, NULL);
    setitimer(ITIMER_PROF, &interval, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    struct itimerspec soon = {.it_value.tv_nsec = 1};
    need(timer_settime(timer, 0, &soon, NULL) == 0, "timer_settime");
    sigset_t pending;
    AWAIT(sigpending(&pending) == 0 && sigismember(&pending, SIGRTMIN + 3));
    unsetenv("MARGAY_TEST_MARK"); // its path begins here
    mkdir("below", 0700);
    need(chdir("below") == 0, "chdir");
    umask(0123);
    prctl(PR_SET_DUMPABLE, 0);
    setpriority(PRIO_PROCESS, 0, 19);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    int kept = open("/proc/self/status", O_RDONLY), gone = open("/dev/null", O_RDONLY | O_CLOEXEC), moved = dup(gone);
    pid_t child = forked();
    if (child == 0)
        _exit(6);
    BECOME("stays", text("%d", getpid()), text("%d", kept), text("%d", gone), text("%d", moved), text("%d", child));
}
static void as_stays(int argc, char **argv)
{
    struct sigaction action;
    sigset_t set;
    stack_t stack;
    siginfo_t info;
    char cwd[PATH_MAX];
    check(argc == 8 && getpid() == atoi(argv[3]) && own_tid() == getpid(), "its number");
    check(fcntl(atoi(argv[4]), F_GETFD) == 0 && fcntl(atoi(argv[6]), F_GETFD) == 0, "descriptors");
    check_fails(fcntl(atoi(argv[5]), F_GETFD), EBADF, "one that is close-on-exec");
    sigprocmask(SIG_BLOCK, NULL, &set);
    check(sigismember(&set, SIGUSR1) && sigismember(&set, 40) && !sigismember(&set, SIGTERM), "the mask");
    sigaction(SIGTERM, NULL, &action);
    check(action.sa_handler == SIG_DFL && action.sa_flags == 0, "no handler");
    sigaction(SIGHUP, NULL, &action);
    check(action.sa_handler == SIG_IGN, "what is ignored");
    check(sigaltstack(NULL, &stack) == 0 && stack.ss_flags == SS_DISABLE, "no alternate stack");
    check(sigpending(&set) == 0 && sigismember(&set, SIGUSR1) && sigismember(&set, SIGRTMIN + 2), "pending signals");
    check(!sigismember(&set, SIGRTMIN + 3), "but none of a timer");
    check(sigwaitinfo(&(sigset_t){{1ul << (SIGRTMIN + 1)}}, &info) == SIGRTMIN + 2 && info.si_value.sival_int == 7,
          "with what they say");
    struct itimerval interval;
    getitimer(ITIMER_REAL, &interval);
    int real = interval.it_value.tv_sec > 900;
    getitimer(ITIMER_PROF, &interval);
    check(real && interval.it_value.tv_sec > 900, "interval timers");
    struct itimerspec left;
    check_fails(syscall(SYS_timer_gettime, 0, &left), EINVAL, "no timers of timer_create");
    check(strcmp(strrchr(getcwd(cwd, sizeof cwd), '/'), "/below") == 0 && umask(0) == 0123, "directory and umask");
    check(chdir("..") == 0 && rmdir("below") == 0, "which can be left");
    check(prctl(PR_GET_DUMPABLE) == 1, "it is dumpable again");
    check(getpriority(PRIO_PROCESS, 0) == 19, "the nice value");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    check(limit.rlim_cur == 200, "limits");
    int status, child = atoi(argv[7]);
    pid_t waited = waitpid(child, &status, 0);
    // With SA_NOCLDWAIT it may have gone before or been kept since.
    check((waited == child && WEXITSTATUS(status) == 6) || (waited == -1 && errno == ECHILD), "children");
    child = forked();
    if (child == 0)
        _exit(5);
    check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5, "whose end it sees");
}

static void alarms(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct itimerval soon = {.it_value.tv_usec = 20000};
    setitimer(ITIMER_REAL, &soon, NULL);
    BECOME("alarms");
}
static void as_alarms(int argc, char **argv)
{
    sigset_t set;
    int signo;
    (void)argc, (void)argv;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    check(sigwait(&set, &signo) == 0 && signo == SIGALRM, "an alarm that was set before");
}

// ---- Others ------------------------------------------------------------------

// Programs of other kinds, one after the other, up to this one.
static void of_all_kinds(void) { BECOME("kinds", "", self); }
static void as_kinds(int argc, char **argv)
{
    static const char *const kinds[] = {"glibc-dynamic", "musl-static", "static-pie", "glibc-static"};
    size_t done = strlen(argv[3]);
    check(argc == 5 && own_tid() == getpid(), "program %zu", done);
    if (done == sizeof kinds / sizeof *kinds)
        return;
    char *folder = strrchr(argv[4], '/');
    while (*--folder != '/')
        ;
    char *path = text("%.*s/%s/replaced", (int)(folder - argv[4]), argv[4], kinds[done]);
    execv(path, (char *[]){"replaced", "as", "kinds", text("%sx", argv[3]), argv[4], NULL});
    need(0, path);
}

static size_t resident_pages(void)
{
    char line[256];
    contents("/proc/self/statm", line, sizeof line);
    return strtoul(strchr(line, ' '), NULL, 10);
}

// Again and again, with memory and descriptors that go each time.
static void many(void) { BECOME("many", getenv("ROUNDS") ? getenv("ROUNDS") : "20", "0", "0"); }
static void as_many(int argc, char **argv)
{
    int rounds = atoi(argv[3]), before = atoi(argv[5]);
    size_t pages = strtoul(argv[4], NULL, 10);
    need(argc == 6, "arguments");
    if (pages == 0) {
        pages = resident_pages();
        before = descriptors();
    }
    if (rounds == 0) {
        check(descriptors() == before, "no descriptor is lost");
        // Less than a round has, and more than Linux maps around what is touched of files, now and then.
        check(resident_pages() < pages + 400, "no memory is lost");
        return;
    }
    char *memory = malloc(2 << 20);
    need(memory != NULL, "malloc");
    memset(memory, 1, 2 << 20);
    open("/dev/null", O_RDONLY | O_CLOEXEC);
    int ends[2];
    need(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    start(asleep, NULL);
    AWAIT(ready == 1);
    BECOME("many", text("%d", rounds - 1), text("%zu", pages), text("%d", before));
}

int main(int argc, char **argv)
{
    static const struct other others[] = {{"begins", as_begins}, {"stays", as_stays}, {"alarms", as_alarms},
                                         {"kinds", as_kinds}, {"many", as_many}};
    static const struct test_case cases[] = {
        CASE(begins), CASE(stays), CASE(alarms), CASE(of_all_kinds), CASE(many),
    };
    return RUN_REPLACED(others, cases);
}
