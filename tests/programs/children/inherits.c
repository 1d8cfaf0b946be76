// What a child has of its parent's things besides memory, and what it has
// not: `inherits CASE`. The child checks by its exit status.
#include "../common/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

// ---- Memory, of one moment ------------------------------------------------------

enum { BETWEEN = 32 << 20 };
static atomic_int stop;
static atomic_long *first, *second;
static void *count_on(void *arg)
{
    for (long n = 1; !stop; n++) {
        *first = n;
        *second = n;
    }
    return arg;
}
static int compare_counts(void)
{
    long ahead = *first - *second;
    return ahead != 0 && ahead != 1;
}

// Memory was copied while other threads wrote to it: what belongs together did not fit together in a child.
static void one_moment(void)
{
    char *pages = mmap(NULL, BETWEEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int failed = 0;
    need(pages != MAP_FAILED, "mmap");
    memset(pages, 1, BETWEEN);
    first = (atomic_long *)pages;
    second = (atomic_long *)(pages + BETWEEN - PAGE_BYTES);
    *first = *second = 0;
    pthread_t counter = start(count_on, NULL);
    AWAIT(*second > 0);
    for (int i = 0; i < 10; i++) {
        long before = *first;
        failed += in_child(compare_counts) != 0;
        AWAIT(*first > before);
    }
    stop = 1;
    joined(counter);
    check(failed == 0, "a child has memory of one moment, whatever other threads write");
}

// ---- Descriptors --------------------------------------------------------------

enum { FDS = 64 };
static char expected[FDS];
static int expected_beyond;

// What /proc/self/fd lists, without the descriptor that lists it.
static int list(char *open_fds)
{
    DIR *dir = opendir("/proc/self/fd");
    int beyond = 0;
    if (dir == NULL)
        return -1;
    memset(open_fds, 0, FDS);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        if (fd < FDS)
            open_fds[fd] = 1;
        else
            beyond++;
    }
    closedir(dir);
    return beyond;
}

static int compare_lists(void)
{
    char found[FDS];
    return list(found) != expected_beyond || memcmp(found, expected, FDS) != 0;
}

static void listed(void)
{
    need(open("/dev/null", O_RDONLY) >= 0 && dup2(0, 40) == 40, "open");
    expected_beyond = list(expected);
    check(expected_beyond >= 0 && expected[40], "the parent's descriptors");
    IN_CHILD("/proc/self/fd of a child lists them and no others", compare_lists);
}

static int compare_numbers(void)
{
    for (int fd = 0; fd < FDS; fd++)
        if (expected[fd] != (fcntl(fd, F_GETFD) != -1))
            return 1;
    return 0;
}

static pid_t bystander;
static void *signal_others(void *arg)
{
    while (!stop)
        kill(bystander, SIGCONT);
    return arg;
}
static void *change_priorities(void *arg)
{
    while (!stop)
        setpriority(PRIO_PROCESS, (id_t)bystander, 0);
    return arg;
}
static void *start_threads(void *arg)
{
    while (!stop)
        joined(start((void *(*)(void *))own_tid, NULL));
    return arg;
}

// What carries out calls of other threads opens files of its own for a moment: once children inherited those.
static void beside_calls(void)
{
    int failed = 0;
    bystander = forked();
    if (bystander == 0)
        for (;;)
            pause();
    for (int fd = 0; fd < FDS; fd++)
        expected[fd] = fcntl(fd, F_GETFD) != -1;
    pthread_t threads[] = {start(signal_others, NULL), start(change_priorities, NULL), start(start_threads, NULL)};
    for (int i = 0; i < 100; i++)
        failed += in_child(compare_numbers) != 0;
    stop = 1;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        joined(threads[i]);
    kill(bystander, SIGKILL);
    waitpid(bystander, NULL, 0);
    check(failed == 0, "nor what is open while other threads call");
}

static int event_fd, epoll_fd, timer_fd;
static int use_kinds(void)
{
    uint64_t count;
    struct epoll_event event;
    if (epoll_wait(epoll_fd, &event, 1, HANG_S * 1000) != 1 || read(event_fd, &count, 8) != 8 || count != 3)
        return 1;
    if (read(timer_fd, &count, 8) != 8 || count < 1)
        return 2;
    count = 5;
    return write(event_fd, &count, 8) != 8;
}

static void kinds(void)
{
    uint64_t count = 3;
    event_fd = eventfd(0, 0);
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct epoll_event event = {.events = EPOLLIN};
    struct itimerspec soon = {.it_value.tv_nsec = 1000};
    need(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) == 0 && write(event_fd, &count, 8) == 8 &&
             timerfd_settime(timer_fd, 0, &soon, NULL) == 0,
         "descriptors");
    IN_CHILD("eventfd, epoll and timerfd", use_kinds);
    check(read(event_fd, &count, 8) == 8 && count == 5, "which are the parent's, too");
}

static int file;
static int look_at_locks(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_WRLCK || lock.l_pid != getppid())
        return 1;
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_SETLK, &lock) == 0)
        return 2;
    return flock(file, LOCK_EX | LOCK_NB) != 0;
}

static void locks(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    file = open("locked", O_RDWR | O_CREAT, 0600);
    need(file >= 0 && fcntl(file, F_SETLK, &lock) == 0 && flock(file, LOCK_EX) == 0, "locks");
    IN_CHILD("record locks are the parent's alone, flock's go with the file", look_at_locks);
    unlink("locked");
}

// ---- Priorities, timers --------------------------------------------------------

static int look_at_priority(void) { return getpriority(PRIO_PROCESS, 0) != 19; }
static void priority(void)
{
    need(setpriority(PRIO_PROCESS, 0, 19) == 0, "setpriority");
    IN_CHILD("the nice value is the parent's", look_at_priority);
}

// Regression: a child that set its slack back to the default had Linux's, not what its parent had.
static int is_slack_wrong(void)
{
    long inherited = prctl(PR_GET_TIMERSLACK);
    return prctl(PR_SET_TIMERSLACK, 5) != 0 || prctl(PR_SET_TIMERSLACK, 0) != 0 || inherited != 70000 ||
           prctl(PR_GET_TIMERSLACK) != inherited;
}
static void slack(void)
{
    need(prctl(PR_SET_TIMERSLACK, 70000) == 0, "prctl");
    IN_CHILD("the slack of timers is the parent's, and the child's default", is_slack_wrong);
}

static int look_at_personality(void) { return personality(0xffffffff) != ADDR_NO_RANDOMIZE; }
static void no_randomizing(void)
{
    need(personality(ADDR_NO_RANDOMIZE) == 0, "personality");
    IN_CHILD("the personality is the parent's", look_at_personality);
    check(personality(0) == ADDR_NO_RANDOMIZE && personality(0xffffffff) == 0, "and can be changed back");
}

static timer_t timer;
static int look_at_timer(void)
{
    struct itimerspec left;
    return timer_gettime(timer, &left) == 0 || errno != EINVAL;
}
static void timers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec long_after = {.it_value.tv_sec = 1000};
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &long_after, NULL) == 0, "timer");
    IN_CHILD("a POSIX timer is not", look_at_timer);
}

// ---- The program ---------------------------------------------------------------

static int look_at_environment(void)
{
    const char *value = getenv("OF_THE_PARENT");
    return value == NULL || strcmp(value, "seen") != 0 || WEXITSTATUS(system("test \"$OF_THE_PARENT\" = seen")) != 0;
}
static void environment(void)
{
    setenv("OF_THE_PARENT", "seen", 1);
    IN_CHILD("the environment, also of what it executes", look_at_environment);
}

static char own_arguments[4096];
static long read_arguments(char *to)
{
    int fd = open("/proc/self/cmdline", O_RDONLY);
    long length = fd < 0 ? -1 : read(fd, to, sizeof own_arguments);
    close(fd);
    return length;
}
static int look_at_arguments(void)
{
    static char found[4096];
    long length = read_arguments(found);
    return length <= 0 || memcmp(found, own_arguments, (size_t)length) != 0;
}
static void arguments(void)
{
    check(read_arguments(own_arguments) > 0, "arguments of the parent");
    IN_CHILD("are the child's, as others see them", look_at_arguments);
}

static DIR *stream;
static int read_stream(void) { return readdir(stream) == NULL; }
static void directory(void)
{
    need((stream = opendir("/")) != NULL && readdir(stream) != NULL, "opendir");
    IN_CHILD("an open directory", read_stream);
}

static int use_stack(void)
{
    volatile char large[3 << 20];
    for (size_t i = 0; i < sizeof large; i += PAGE_BYTES)
        large[i] = 1;
    return large[PAGE_BYTES] != 1;
}
static void stack(void) { IN_CHILD("room on the stack", use_stack); }

static int has_limits(void)
{
    struct rlimit limit;
    const int which[] = {RLIMIT_CPU, RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_CORE};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        if (getrlimit(which[i], &limit) != 0 || limit.rlim_cur != (rlim_t)(i + 1) << 26 || limit.rlim_max != (rlim_t)(i + 1) << 27)
            return 1;
    return mmap(NULL, 1ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != ENOMEM;
}

// A child had those of memory and processor time as yod was started with them.
static void limits(void)
{
    const int which[] = {RLIMIT_CPU, RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_CORE};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct rlimit limit = {(rlim_t)(i + 1) << 26, (rlim_t)(i + 1) << 27};
        need(setrlimit(which[i], &limit) == 0, "setrlimit");
    }
    IN_CHILD("the child has its parent's limits", has_limits);
    struct rlimit second = {1, 1 << 27};
    need(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0, "setrlimit");
    pid_t pid = forked();
    if (pid == 0) {
        setrlimit(RLIMIT_CPU, &second);
        for (;;)
            ;
    }
    check(WTERMSIG(status_of(pid)) == SIGXCPU, "and is ended by that on processor time");
}

static void note_end(void) { write_all(1, "at the end\n", 11); }
static void streams(void)
{
    int status;
    atexit(note_end);
    printf("printed twice: it was not flushed before the fork\n");
    pid_t pid = forked();
    if (pid == 0)
        exit(0x1234);
    need(waitpid(pid, &status, 0) == pid, "waitpid");
    check(WEXITSTATUS(status) == 0x34, "a status has eight bits");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(one_moment), CASE(listed), CASE(beside_calls), CASE(kinds),     CASE(locks), CASE(priority), CASE(no_randomizing),
        CASE(timers), CASE(slack),
        CASE(environment), CASE(arguments), CASE(directory), CASE(stack), CASE(limits), CASE(streams),
    };
    return RUN_CASES(cases);
}
