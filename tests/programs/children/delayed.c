// An execve whose program cannot be opened yet: `delayed CASE`.
//
// A child has a write lease on the program's file (fcntl(2)): an open of it
// waits until the lease is given back, or for /proc/sys/fs/lease-break-time
// (45 s). Linux sends the child SIGIO for that.
#include "../common/children.h"

#include <fcntl.h>

static char *const argv_x[] = {"delayed", "name", NULL};
static char *const envp_x[] = {NULL};

static volatile sig_atomic_t caught;
static void note(int signo) { caught = signo; }

// Holds the lease until its input ends; for each waiter it writes
// a byte.
static void hold_lease(int input, int output)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int file = open("program", O_RDWR);
    if (file < 0 || fcntl(file, F_SETLEASE, F_WRLCK) != 0)
        _exit(1);
    write_all(output, "l", 1);
    if (sigwaitinfo(&set, &info) != SIGIO)
        _exit(2);
    write_all(output, "w", 1);
    char byte;
    read(input, &byte, 1);
    _exit(0);
}

struct holder {
    pid_t pid;
    int input, output;
};

static struct holder leased(void)
{
    int in[2], out[2], file = open("program", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    char byte;
    need(file >= 0 && write(file, "#!/bin/true\n", 12) == 12 && close(file) == 0, "program");
    need(pipe(in) == 0 && pipe(out) == 0, "pipe");
    pid_t pid = forked();
    if (pid == 0) {
        close(in[1]);
        hold_lease(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    need(read(out[0], &byte, 1) == 1 && byte == 'l', "a lease");
    return (struct holder){pid, in[1], out[0]};
}

static void await_waiter(const struct holder *holder)
{
    char byte;
    need(read(holder->output, &byte, 1) == 1 && byte == 'w', "nobody waits");
}

static void give_back(const struct holder *holder)
{
    close(holder->input);
    need(status_of(holder->pid) == 0, "the holder of the lease");
    unlink("program");
}

static pthread_t main_thread;
static void *interrupt_exec(void *holder)
{
    await_waiter(holder);
    // Until it has an effect: the signal may come before execve waits.
    while (!caught) {
        pthread_kill(main_thread, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

// Regression: no signal was taken until the file was open.
static void interrupted(void)
{
    struct holder holder = leased();
    main_thread = pthread_self();
    catch_signal(SIGUSR1, note, 0);
    pthread_t thread = start(interrupt_exec, &holder);
    check_fails(execve("program", argv_x, envp_x), EINTR, "a signal ends the wait");
    joined(thread);
    check(caught == SIGUSR1, "its handler has run");
    give_back(&holder);
}

static atomic_int failed_with;
static void *replace(void *arg)
{
    execve("program", argv_x, envp_x);
    failed_with = errno;
    return arg;
}

// A fork waited for as long as the file was not open.
static void beside_forks(void)
{
    struct holder holder = leased();
    catch_signal(SIGUSR1, note, 0);
    pthread_t thread = start(replace, NULL);
    await_waiter(&holder);
    int failed = 0;
    for (int i = 0; i < 5; i++)
        failed += status_of(child(i)) != i << 8;
    check(failed == 0 && failed_with == 0, "forks beside an execve that waits");
    AWAIT((pthread_kill(thread, SIGUSR1), failed_with != 0));
    joined(thread);
    check(failed_with == EINTR, "which goes on to wait");
    give_back(&holder);
}

// The file that was being opened had a number of the program for as long as execve waited: EBUSY.
static void beside_descriptors(void)
{
    struct holder holder = leased();
    catch_signal(SIGUSR1, note, 0);
    int next = dup(0);
    need(next >= 0 && close(next) == 0, "dup");
    pthread_t thread = start(replace, NULL);
    await_waiter(&holder);
    check(dup2(0, next) == next && failed_with == 0, "no number is taken by an execve that waits");
    AWAIT((pthread_kill(thread, SIGUSR1), failed_with != 0));
    joined(thread);
    check(failed_with == EINTR && fcntl(next, F_GETFD) == 0, "nor closed by it");
    give_back(&holder);
}

static void *end_all(void *holder)
{
    await_waiter(holder);
    unlink("program");
    kill(getpid(), SIGTERM);
    return NULL;
}

// Whatever ended the program, it ended when the file was open.
static void ended(void)
{
    struct holder holder = leased();
    start(end_all, &holder);
    execve("program", argv_x, envp_x);
    need(0, "execve");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {CASE(interrupted), CASE(beside_forks), CASE(beside_descriptors), CASE(ended)};
    return RUN_CASES(cases);
}
