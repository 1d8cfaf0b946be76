// Every call that takes memory, with memory of another rank in its place. The calls come from stdin, a line for each row of the table:
// number, name, and a letter for each argument: `n` a number, `f` a descriptor, `d` a directory, `p` a path, `s` another string, `m` memory.
// Each is made several times, with other numbers, first with own memory and then with the same contents in rank 1: what is not
// EFAULT with the one is not with the other, and what is written to the one is to the other.
//
// Regressions: with a length of -1 getcwd and msgsnd were EFAULT, sched_getattr wrote nothing, nor did capget where it fails. setrlimit, prlimit64, prctl, execve, mq_open, capget and sched_getattr failed with EFAULT, and some had begun by then.
#include "windows.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum { SLOT_BYTES = 64 << 10, HEAD_BYTES = 1024, PLAIN = 8, VARIANTS = PLAIN + 6, FIRST_FD = 3, FDS_END = 100 };
// The same in both ranks; behind each slot there is nothing.
#define AREA ((char *)UINT64_C(0x3000000000))
#define SLOT(i) (AREA + (size_t)(i) * 2 * SLOT_BYTES)

static char before[HEAD_BYTES];

struct row {
    int number;
    char name[32], kinds[8];
};

static void on_alarm(int signo) { (void)signo; }

// What a call may have changed of what the next one needs. Waits are over soon.
static void settle(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 2000}, {0, 2000}};
    sigset_t none;
    sigemptyset(&none);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void open_all(void)
{
    int pair[2];
    struct epoll_event event = {.events = EPOLLIN};
    close_range(FIRST_FD, FDS_END, 0);
    int fd = open("every_file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(fd == FIRST_FD && write(fd, "some bytes", 10) == 10, "a file");
    need(pipe(pair) == 0 && write(pair[1], "some bytes", 10) == 10, "a pipe");
    need(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && send(pair[1], "some bytes", 10, 0) == 10, "sockets");
    int epoll = epoll_create1(0);
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, FIRST_FD + 1, &event) == 0, "epoll");
    need(timerfd_create(CLOCK_MONOTONIC, 0) >= 0 && eventfd(1, 0) >= 0 && open(".", O_RDONLY | O_DIRECTORY) >= 0, "more");
}

static const char *contents(char kind) { return kind == 'p' ? "every_file" : kind == 's' ? "every_name" : ""; }

// Numbers that many calls like: small ones, sizes, some requests of ioctl, prctl and arch_prctl, nothing; in the last variants one of
// them, which may be a length, is -1.
static long number(int variant, int argument)
{
    if (variant >= PLAIN && argument == variant - PLAIN)
        return -1;
    static const long numbers[] = {0, 1, 2, 3, 8, 16, 24, 48, 64, 128, 4096, 0x5401, 0x541b, 15, 16, 0x1003};
    return numbers[(variant * 5 + argument * (variant + 3)) % (int)(sizeof numbers / sizeof *numbers)];
}

// Calls that refuse most numbers get good ones.
static void choose(const struct row *row, int variant, long *args)
{
    static const long options[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_CHILD_SUBREAPER, PR_GET_PDEATHSIG};
    if (row->number == SYS_prctl)
        args[0] = options[variant % 4];
    if (row->number == SYS_sched_getattr)
        args[0] = args[3] = 0, args[2] = 48 + variant;
    // A few random bytes may be those that were there.
    if (row->number == SYS_getrandom && args[1] > 0 && args[1] < 16)
        args[1] = 16;
}

// Calls that do what must not be done here, or whose contents are no zeros.
static int is_left_out(const struct row *row, const long *args)
{
    switch (row->number) {
    case SYS_clone: case SYS_clone3: return 1; // makes another
    case SYS_shmctl: case SYS_semctl: case SYS_msgctl: return args[row->number == SYS_semctl ? 2 : 1] < 3; // of others' too
    default: return 0;
    }
}

static void fill(const struct row *row, char *slot, int argument, int variant, const long *args)
{
    memset(slot, 0, HEAD_BYTES);
    strcpy(slot, contents(row->kinds[argument]));
    if (row->number == SYS_setrlimit || (row->number == SYS_prlimit64 && argument == 2))
        getrlimit((int)args[row->number == SYS_prlimit64], (struct rlimit *)(void *)slot);
    if (row->number == SYS_capget && variant % 2 == 0) // _LINUX_CAPABILITY_VERSION_3
        *(uint32_t *)(void *)slot = 0x20080522;
}

static long made(const struct row *row, int variant, int there, int *left_out, int *wrote)
{
    long args[6] = {0};
    char *slots[6] = {0};
    for (int i = 0; i < 6 && row->kinds[i] != 0; i++) {
        switch (row->kinds[i]) {
        case 'n': args[i] = number(variant, i); break;
        case 'f': args[i] = FIRST_FD + (variant + i) % 9; break;
        case 'd': args[i] = AT_FDCWD; break;
        default: slots[i] = there ? OF(1, SLOT(i)) : SLOT(i); args[i] = (long)slots[i];
        }
    }
    choose(row, variant, args);
    *left_out = is_left_out(row, args);
    if (*left_out)
        return 0;
    for (int i = 0; i < 6; i++)
        if (slots[i] != NULL)
            fill(row, slots[i], i, variant, args);
    settle();
    long result = syscall(row->number, args[0], args[1], args[2], args[3], args[4], args[5]);
    result = result == -1 ? -errno : result;
    settle();
    for (int i = 0; i < 6; i++) {
        if (slots[i] == NULL)
            continue;
        char was[HEAD_BYTES];
        memcpy(was, slots[i], HEAD_BYTES);
        fill(row, before, i, variant, args);
        *wrote |= (memcmp(was, before, HEAD_BYTES) != 0) << i;
    }
    return result;
}

static void try_row(const struct row *row)
{
    int useful = 0;
    open_all();
    for (int variant = 0; variant < VARIANTS; variant++) {
        int left_out, wrote[2] = {0, 0};
        long own = made(row, variant, 0, &left_out, &wrote[0]);
        useful |= left_out;
        if (left_out)
            continue;
        long there = made(row, variant, 1, &left_out, &wrote[1]);
        useful |= own != -EFAULT;
        if (own != -EFAULT && there == -EFAULT)
            check(0, "%s: EFAULT with another rank's memory, %ld with its own", row->name, own);
        else if (own == there && (own >= 0 || row->number == SYS_capget) && wrote[0] != wrote[1])
            check(0, "%s: writes other arguments (%x) than in its own memory (%x)", row->name, (unsigned)wrote[1], (unsigned)wrote[0]);
    }
    check(useful, "%s has looked at memory", row->name);
}

int main(void)
{
    struct row row;
    int rows = 0;
    begin_ranks();
    for (int i = 0; i < 6; i++)
        need(mmap(SLOT(i), SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == SLOT(i), "a slot");
    sigset_t wanted;
    int got;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    shared->word[own_rank] = (uint64_t)getpid();
    meet(0);
    if (own_rank == 0) {
        // The descriptor is the tests', and calls use those from FIRST_FD on.
        int list = fcntl(0, F_DUPFD, FDS_END + 1);
        FILE *lines = fdopen(list, "r");
        need(lines != NULL, "a list");
        for (; fscanf(lines, "%d %31s %7s", &row.number, row.name, row.kinds) == 3; rows++)
            try_row(&row);
        check(rows > 100, "rows");
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
        unlink("every_file");
        syscall(SYS_mq_unlink, "every_name");
    }
    // Its memory is to stay, for longer than a step takes, and rank 0 is to have the processors.
    if (own_rank == 0)
        need(kill((pid_t)shared->word[1], SIGUSR1) == 0, "kill");
    else
        need(sigwait(&wanted, &got) == 0 && got == SIGUSR1, "sigwait");
    return end_ranks();
}
