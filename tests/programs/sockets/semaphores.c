// System V semaphores of one process: values, what is known of them, operations that would wait, that do for a time and that a signal
// ends, and the order of errors.
//
// Regression: there were none (ENOSYS).
#include "../common/check.h"
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { COUNT = 3 };

static int id;

static long command(int number, int what, unsigned long with) { return syscall(SYS_semctl, id, number, what, with); }

static int operate(int number, int by, int flags)
{
    struct sembuf one = {(unsigned short)number, (short)by, (short)flags};
    return semop(id, &one, 1);
}

static void values(void)
{
    unsigned short all[COUNT] = {7, 8, 9}, got[COUNT + 1] = {0, 0, 0, 1234};
    check(command(0, SETALL, (unsigned long)all) == 0 && command(0, GETALL, (unsigned long)got) == 0, "all are set and read");
    check(memcmp(all, got, sizeof all) == 0 && got[COUNT] == 1234, "they are what was set, and nothing behind");
    check(command(1, SETVAL, 3) == 0 && command(1, GETVAL, 0) == 3, "one is set");
    check_fails(command(1, SETVAL, ~0ul), ERANGE, "to less than none");
    check_fails(command(1, SETVAL, 32768), ERANGE, "to too much");
    check_fails(command(COUNT, GETVAL, 0), EINVAL, "one too many");
    check_fails(command(0, GETALL, 8), EFAULT, "a bad pointer to read to");
    check_fails(command(0, SETALL, 8), EFAULT, "and from");
    check_fails(command(0, 99, 8), EINVAL, "no command");
}

static void known(void)
{
    struct semid_ds about;
    struct seminfo limits;
    check(command(0, IPC_STAT, (unsigned long)&about) == 0 && about.sem_nsems == COUNT, "how many there are");
    check((about.sem_perm.mode & 0777) == 0600 && about.sem_otime == 0 && about.sem_ctime > 0, "whose, and since when");
    about.sem_perm.mode = 0640;
    check(command(0, IPC_SET, (unsigned long)&about) == 0 && command(0, IPC_STAT, (unsigned long)&about) == 0, "that is changed");
    check((about.sem_perm.mode & 0777) == 0640, "and told");
    check(command(0, IPC_INFO, (unsigned long)&limits) >= 0 && limits.semvmx == 32767, "the limits");
    check(command(0, SEM_INFO, (unsigned long)&limits) >= 0 && limits.semusz >= 1, "and how much is used");
    check_fails(command(0, IPC_STAT, 8), EFAULT, "a bad pointer");
}

static void operations(void)
{
    struct sembuf two[2] = {{0, 2, 0}, {2, -9, IPC_NOWAIT}};
    need(command(0, SETVAL, 1) == 0 && command(1, SETVAL, 0) == 0 && command(2, SETVAL, 5) == 0, "values");
    check(operate(0, -1, 0) == 0 && command(0, GETVAL, 0) == 0, "down");
    check(operate(0, 0, 0) == 0, "it is zero");
    check(command(0, GETPID, 0) == getpid(), "by this process");
    check_fails(operate(0, -1, IPC_NOWAIT), EAGAIN, "down from zero");
    check_fails(operate(2, 0, IPC_NOWAIT), EAGAIN, "one that is not zero");
    check_fails(semop(id, two, 2), EAGAIN, "two, of which one would wait");
    check(command(0, GETVAL, 0) == 0 && command(2, GETVAL, 0) == 5, "neither was done");
    check(command(0, GETNCNT, 0) == 0 && command(2, GETZCNT, 0) == 0, "nobody waits");
    check_fails(operate(COUNT, 1, 0), EFBIG, "one too many");
    check_fails(operate(0, 32767, 0) == 0 ? operate(0, 1, 0) : 0, ERANGE, "too far up");
    check_fails(semop(id, two, 0), EINVAL, "no operation");
    check_fails(semop(id, (void *)8, 1), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_semop, id, two, 1 << 20), E2BIG, "too many at once");
    check_fails(syscall(SYS_semop, -1, two, 1), EINVAL, "no set");
}

static void on_alarm(int signo) { (void)signo; }

static void waits(void)
{
    struct sembuf down = {1, -1, 0};
    struct timespec soon = {0, 20000000}, wrong = {0, -1};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval alarm = {.it_value.tv_usec = 20000};
    check_fails(semtimedop(id, &down, 1, &soon), EAGAIN, "down from zero, for a time");
    check_fails(semtimedop(id, &down, 1, &wrong), EINVAL, "for no time");
    check_fails(semtimedop(id, &down, 1, (void *)8), EFAULT, "for a bad pointer");
    need(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &alarm, NULL) == 0, "alarm");
    check_fails(semop(id, &down, 1), EINTR, "a signal ends it, though its handler restarts calls");
    check(command(1, GETVAL, 0) == 0, "it has done nothing");
}

int main(void)
{
    id = semget(IPC_PRIVATE, COUNT, IPC_CREAT | 0600);
    need(id >= 0, "semget");
    known();
    values();
    operations();
    waits();
    check_fails(semget(IPC_PRIVATE, -1, IPC_CREAT), EINVAL, "less than none");
    check_fails(semget(0x4d617267, 1, 0), ENOENT, "a key that no set has");
    check(command(0, IPC_RMID, 0) == 0, "removed");
    check_fails(command(0, GETVAL, 0), EINVAL, "it is gone");
    return check_done();
}
