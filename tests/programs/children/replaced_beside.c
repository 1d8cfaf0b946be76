// A program that becomes another beside threads, from whichever of them, and while strings change. See replaced.h.
#include "replaced.h"

#include <sys/prctl.h>

static word_t word;
static int ends[2];

static void *in_a_call(void *arg)
{
    char byte;
    ready++;
    return (void *)(read(ends[0], &byte, 1) + (char *)arg);
}
static void *in_a_futex(void *arg)
{
    ready++;
    futex_wait(&word, 0);
    return arg;
}
static void *at_work(void *arg)
{
    ready++;
    for (;;)
        word += 0;
    return arg;
}
static void *in_calls(void *arg)
{
    ready++;
    for (;;) {
        int fd = open("/dev/null", O_RDONLY);
        void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(memory, 1 << 20);
        close(fd);
    }
    return arg;
}
static void *in_sigwait(void *arg)
{
    sigset_t set;
    int signo;
    sigfillset(&set);
    ready++;
    sigwait(&set, &signo);
    return arg;
}

static void start_all(void)
{
    static void *(*const kinds[])(void *) = {in_a_call, in_a_futex, asleep, at_work, in_calls, in_sigwait};
    need(pipe(ends) == 0, "pipe");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        start(kinds[i], NULL);
    AWAIT(ready == 6);
}

static void beside_threads(void)
{
    start_all();
    BECOME("alone", text("%d", getpid()));
}
static void as_alone(int argc, char **argv)
{
    check(argc >= 4 && getpid() == atoi(argv[3]) && own_tid() == getpid(), "the first thread of the same process");
    check(threads_here() == 1, "the only one");
    ready = 0;
    start_all();
    check(threads_here() == 7, "which can start others");
}

static void *become_from_here(void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    signal_thread(own_tid(), SIGUSR2);
    prctl(PR_SET_NAME, "a thread");
    BECOME("from_thread", text("%d", getpid()));
    return arg;
}
static void from_thread(void)
{
    start_all();
    start(become_from_here, NULL);
    for (;;)
        pause();
}
static void as_from_thread(int argc, char **argv)
{
    sigset_t set;
    char name[16];
    sigpending(&set);
    check(sigismember(&set, SIGUSR2), "what was pending for the thread");
    sigprocmask(SIG_BLOCK, NULL, &set);
    check(sigismember(&set, SIGUSR2) && !sigismember(&set, SIGUSR1), "the mask of the thread");
    check(prctl(PR_GET_NAME, name) == 0 && strncmp(name, own_name(), sizeof name - 1) == 0, "the name of the program");
    as_alone(argc, argv);
}

static void *become_when_alone(void *arg)
{
    AWAIT(word == 0);
    BECOME("alone", text("%d", getpid()));
    return arg;
}
static void without_first(void)
{
    word = 1;
    syscall(SYS_set_tid_address, &word); // cleared at its end
    start(become_when_alone, NULL);
    syscall(SYS_exit, 0);
}

static void *become(void *arg)
{
    ready++;
    AWAIT(ready == 8);
    BECOME("alone", text("%d", getpid()));
    return arg;
}
static void at_once(void)
{
    for (int i = 0; i < 7; i++)
        start(become, NULL);
    become(NULL);
}

// The strings change all the time; each that arrives is one of those that there were.
static char *volatile shifting[4];
static char changing[64];
static void *change(void *arg)
{
    static char *const values[] = {"as", changing, (char *)8, (char *)-1, NULL};
    for (unsigned i = 0;; i++) {
        shifting[2] = values[i % 5];
        memset(changing, "xyz"[i % 3], i % sizeof changing);
    }
    return arg;
}
static void of_changing_strings(void)
{
    shifting[0] = own_name();
    shifting[1] = "as";
    start(change, NULL);
    for (int i = 0; i < 300; i++) {
        execv("/no/such", (char **)shifting);
        need(errno == ENOENT || errno == EFAULT, "execv");
        execve("/no/such", (char *[]){"x", NULL}, (char **)shifting);
        need(errno == ENOENT || errno == EFAULT, "execve");
    }
    shifting[3] = NULL;
    execve(self, (char *[]){own_name(), "as", "nothing", NULL}, (char *[]){changing, NULL});
    need(0, "execve");
}
static void as_nothing(int argc, char **argv)
{
    check(argc == 3 && argv[3] == NULL && strlen(environ[0]) < sizeof changing, "strings that are whole");
}

// One thread ends the process while another replaces its program: the status is the same.
static void *end(void *arg)
{
    ready++;
    AWAIT(ready == 2);
    syscall(SYS_exit_group, 5);
    return arg;
}
static void while_it_ends(void)
{
    start(end, NULL);
    ready++;
    AWAIT(ready == 2);
    execl("/bin/sh", "sh", "-c", "exit 5", NULL);
}

int main(int argc, char **argv)
{
    static const struct other others[] = {{"alone", as_alone}, {"from_thread", as_from_thread}, {"nothing", as_nothing}};
    static const struct test_case cases[] = {
        CASE(beside_threads), CASE(from_thread), CASE(without_first),
        CASE(at_once), CASE(of_changing_strings), CASE(while_it_ends),
    };
    return RUN_REPLACED(others, cases);
}
