// System calls with memory of other ranks: what the kernel serves itself, what Linux serves, process_vm_readv and writev.
#include "windows.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { AREA_BYTES = 256 << 10, LARGE_BYTES = 6 << 20, BOUNCED_BYTES = 4 << 20 };

// Rank 1 has these; rank 0 uses them.
static char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));
static char *_Atomic edge; // the last byte of a page before one that is not there
static char *_Atomic read_only;
static char *_Atomic there_once;
static char *_Atomic large; // more than one call bounces
static pid_t pid;
static const char constant[16] = "a constant";

static char *there, *before_edge, *not_writable;

static void made_by_the_kernel(void)
{
    struct timespec *time = (struct timespec *)there;
    check(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, time) == 0 && (time->tv_sec | time->tv_nsec) != 0, "clock_gettime there");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, not_writable), EFAULT, "in read-only memory");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, before_edge), EFAULT, "half beyond the end of a mapping");
    check_fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, OF(2, (char *)area)), EFAULT, "of a rank that is not there");
    memset(there, 0, 64);
    check(syscall(SYS_getrandom, there, 64, 0) == 64 && memcmp(there, area, 64) != 0, "getrandom there");
    sigset_t set;
    sigemptyset(&set);
    check(syscall(SYS_rt_sigprocmask, SIG_BLOCK, OF(0, &set), there, 8) == 0, "rt_sigprocmask from our own window");
}

// Regression: there was a child, and clone answered EFAULT.
static void told_by_clone(void)
{
    int *pidfd = (int *)there;
    *pidfd = -1;
    long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, pidfd, 0, 0);
    if (child == 0)
        syscall(SYS_exit_group, 0);
    check(child > 0 && *pidfd >= 0 && close(*pidfd) == 0, "a child's descriptor there");
    check(waitpid((pid_t)child, NULL, 0) == child, "and it is the caller's child");
    check_fails(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, not_writable, 0, 0), EFAULT, "in read-only memory");
    check_fails(waitpid(-1, NULL, __WALL), ECHILD, "there is no child");
}

static void files(void)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(fd >= 0, "a file");
    for (int i = 0; i < AREA_BYTES; i++)
        there[i] = (char)(i * 7 + i / 251);
    check(write(fd, there, AREA_BYTES) == AREA_BYTES, "write from there");
    memset(there, 0, AREA_BYTES);
    check(pread(fd, area, AREA_BYTES, 0) == AREA_BYTES && area[12345] == (char)(12345 * 7 + 12345 / 251), "the file has it");
    check(pread(fd, there, AREA_BYTES, 0) == AREA_BYTES && memcmp(there, area, AREA_BYTES) == 0, "read to there");
    memset(there, 1, 100);
    check(pread(fd, there, 100, AREA_BYTES - 10) == 10 && there[9] == area[AREA_BYTES - 1] && there[10] == 1,
          "a short read leaves the rest");
    check_fails(pread(fd, not_writable, 10, 0), EFAULT, "read to read-only memory");
    check_fails(write(fd, before_edge, 10), EFAULT, "write from beyond a mapping");
    check_fails(write(fd, OF(2, (char *)area), 10), EFAULT, "write from a rank that is not there");
    check_fails(write(-1, before_edge, 10), EBADF, "a wrong descriptor comes first");
    struct iovec v[4] = {{area, 3}, {there + 100, 5}, {area + 50, 2}, {there + 200, 6}};
    check(pwritev(fd, v, 4, 0) == 16, "pwritev from both");
    char back[16];
    check(pread(fd, back, 16, 0) == 16 && memcmp(back + 3, there + 100, 5) == 0 && memcmp(back + 8, area + 50, 2) == 0 &&
              memcmp(back + 10, there + 200, 6) == 0,
          "in their order");
    memset(there + 100, 0, 200);
    struct iovec *their_vectors = (struct iovec *)(there + 4096);
    memcpy(their_vectors, v, sizeof v);
    check(preadv(fd, their_vectors, 4, 0) == 16 && memcmp(there + 100, back + 3, 5) == 0 && memcmp(there + 200, back + 10, 6) == 0,
          "preadv by vectors that lie there");
    v[3].iov_base = not_writable;
    check(preadv(fd, v, 4, 0) == 10, "preadv up to memory that cannot be written");
    strcpy(there, "file");
    struct stat *status = (struct stat *)(there + 1024);
    check(stat(there, status) == 0 && status->st_size == AREA_BYTES, "a path and a structure there");
    strcpy(there, "none");
    check_fails(open(there, O_RDONLY), ENOENT, "a path that is wrong");
    check_fails(open(before_edge, O_RDONLY), EFAULT, "a path without an end");
    close(fd);
    unlink("file");
}

static void large_buffers(void)
{
    char *all = OF(1, *OF(1, &large));
    int fd = open("large", O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(all, 'l', LARGE_BYTES);
    check(write(fd, all, LARGE_BYTES) == BOUNCED_BYTES, "write of more than a call bounces");
    memset(all, 'm', LARGE_BYTES);
    check(pread(fd, all, LARGE_BYTES, 0) == BOUNCED_BYTES && all[0] == 'l' && all[BOUNCED_BYTES - 1] == 'l' && all[BOUNCED_BYTES] == 'm',
          "read of it, and nothing behind that");
    close(fd);
    unlink("large");
}

// The strings are looked at before there is no such program.
static void programs(void)
{
    static char name[] = "no such program";
    char **vector = (char **)(there + 1024), *mine[] = {there, name, NULL};
    strcpy(there, name);
    vector[0] = there;
    vector[1] = name;
    vector[2] = NULL;
    check_fails(execve(there, vector, vector), ENOENT, "execve of a path, arguments and variables there");
    check_fails(execve(name, mine, mine), ENOENT, "and of our vectors with strings there");
    mine[1] = before_edge;
    check_fails(execve(name, mine, NULL), EFAULT, "and of a string beyond a mapping");
}

// Another rank's memory is mapped, moved and protected by that alone.
static void own_memory_only(void)
{
    char *mine = pages(1, PROT_READ | PROT_WRITE);
    memset(there, 'x', PAGE_BYTES);
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    check_fails((long)mmap(there, PAGE_BYTES, PROT_READ, how | MAP_FIXED, -1, 0), ENOMEM, "mmap over it");
    check_fails((long)mmap(there, PAGE_BYTES, PROT_READ, how | MAP_FIXED_NOREPLACE, -1, 0), ENOMEM, "with MAP_FIXED_NOREPLACE");
    char *elsewhere = mmap(there, PAGE_BYTES, PROT_READ, how, -1, 0);
    check(elsewhere != MAP_FAILED && elsewhere < OF(0, (char *)NULL), "as a hint it leads to our own");
    check_fails((long)mremap(mine, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, there), EINVAL, "mremap to it");
    check_fails((long)mremap(there, PAGE_BYTES, 2 * PAGE_BYTES, MREMAP_MAYMOVE), EFAULT, "mremap of it");
    check_fails(mprotect(there, PAGE_BYTES, PROT_READ), ENOMEM, "mprotect");
    check_fails(madvise(there, PAGE_BYTES, MADV_DONTNEED), ENOMEM, "madvise");
    check_fails(msync(there, PAGE_BYTES, MS_SYNC), ENOMEM, "msync");
    check_fails(mlock(there, PAGE_BYTES), ENOMEM, "mlock");
    check((char *)syscall(SYS_brk, there) < OF(0, (char *)NULL), "brk");
    check(munmap(there, PAGE_BYTES) == 0, "munmap of what is none of our mappings");
    check(all_bytes(there, 'x', PAGE_BYTES), "all of which changed nothing");
    check_works(store_byte, there, "it can be written still");
}

static void messages(void)
{
    int pair[2];
    need(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "socketpair");
    strcpy(there, "a message from there");
    check(send(pair[0], there, 20, 0) == 20 && recv(pair[1], there + 100, 50, 0) == 20 &&
              memcmp(there, there + 100, 20) == 0,
          "send and recv");
    struct iovec *vectors = (struct iovec *)(there + 1000);
    struct msghdr *message = (struct msghdr *)(there + 2000);
    vectors[0] = (struct iovec){there, 10};
    vectors[1] = (struct iovec){area, 4};
    *message = (struct msghdr){.msg_iov = vectors, .msg_iovlen = 2};
    memcpy(area, "ours", 4);
    check(sendmsg(pair[0], message, 0) == 14, "sendmsg with all of it there");
    vectors[0] = (struct iovec){there + 300, 12};
    vectors[1] = (struct iovec){there + 400, 2};
    memset(there + 300, 0, 200);
    message->msg_flags = 77;
    check(recvmsg(pair[1], message, 0) == 14 && memcmp(there + 300, "a message our", 12) == 0 && memcmp(there + 400, "rs", 2) == 0,
          "recvmsg, too");
    check(message->msg_flags == 0 && message->msg_iov == vectors && message->msg_iovlen == 2, "and the header says so");
    close(pair[0]);
    close(pair[1]);
}

// Queues and semaphores of System V.
static void system_v(void)
{
    struct {
        long kind;
        char text[16];
    } *message = (void *)there;
    unsigned short *values = (unsigned short *)there;
    struct sembuf *operation = (struct sembuf *)(there + 1024);
    int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600), set = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    need(queue >= 0 && set >= 0, "msgget, semget");
    memset(there, 0, PAGE_BYTES);
    message->kind = 5;
    strcpy(message->text, "from there");
    check(msgsnd(queue, message, 11, 0) == 0, "msgsnd");
    memset(message, 'x', sizeof *message);
    check(msgrcv(queue, message, 16, 0, 0) == 11 && message->kind == 5 && strcmp(message->text, "from there") == 0, "msgrcv");
    check(message->text[11] == 'x', "and nothing behind");
    check_fails(msgrcv(queue, not_writable, 16, 0, IPC_NOWAIT), ENOMSG, "no message comes first");
    check_fails(msgsnd(queue, before_edge, 16, 0), EFAULT, "from beyond a mapping");
    struct msqid_ds *about = (struct msqid_ds *)there;
    check(msgctl(queue, IPC_STAT, about) == 0 && about->msg_qnum == 0, "msgctl");
    values[0] = 3, values[1] = 4, values[2] = 77;
    check(semctl(set, 0, SETALL, values) == 0, "semctl from there");
    values[0] = values[1] = 0;
    check(semctl(set, 0, GETALL, values) == 0 && values[0] == 3 && values[1] == 4 && values[2] == 77, "and to there");
    *operation = (struct sembuf){0, -3, 0};
    check(semop(set, operation, 1) == 0 && semctl(set, 0, GETVAL) == 0, "semop");
    check_fails(semop(set, (void *)before_edge, 1), EFAULT, "from beyond a mapping");
    msgctl(queue, IPC_RMID, NULL);
    semctl(set, 0, IPC_RMID);
}

// Keys, a descriptor for signals, kernel AIO.
static void by_number(void)
{
    enum { PROCESS_RING = -2, READ = 11 };
    strcpy(there, "user");
    strcpy(there + 100, "margay:window");
    memcpy(there + 200, "value", 5);
    long key = syscall(SYS_add_key, there, there + 100, there + 200, 5, PROCESS_RING);
    check(key > 0, "add_key");
    check(syscall(SYS_keyctl, READ, key, there + 300, 64) == 5 && memcmp(there + 300, "value", 5) == 0, "keyctl reads to there");
    memcpy(there + 300, "kept", 5);
    check(syscall(SYS_keyctl, READ, key, there + 300, 4) == 5 && memcmp(there + 300, "kept", 5) == 0, "nothing where it does not fit");
    check_fails(syscall(SYS_keyctl, READ, key, not_writable, 64), EFAULT, "and not to read-only memory");
    check_fails(syscall(SYS_add_key, before_edge, there + 100, there + 200, 5, PROCESS_RING), EFAULT, "a kind without an end");

    sigset_t *set = (sigset_t *)(there + 400), old;
    sigemptyset(set);
    sigaddset(set, SIGUSR1);
    need(sigprocmask(SIG_BLOCK, set, &old) == 0, "sigprocmask");
    int fd = signalfd(-1, set, 0);
    struct signalfd_siginfo *info = (struct signalfd_siginfo *)(there + 1024);
    raise(SIGUSR1);
    check(fd >= 0 && read(fd, info, sizeof *info) == sizeof *info && info->ssi_signo == SIGUSR1, "signalfd, and what it reads");
    check_fails(signalfd(-1, (sigset_t *)(before_edge - 3), 0), EFAULT, "a set that is half beyond a mapping");
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);

    aio_context_t *context = (aio_context_t *)there;
    struct iocb **list = (struct iocb **)(there + 8), *one = (struct iocb *)(there + 1024);
    struct io_event *event = (struct io_event *)(there + 2048);
    *context = 0;
    fd = open("aio", O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(one, 0, sizeof *one);
    one->aio_lio_opcode = IOCB_CMD_PWRITE;
    one->aio_fildes = (unsigned)fd;
    one->aio_buf = (uintptr_t)there + 200;
    one->aio_nbytes = 5;
    *list = one;
    check(syscall(SYS_io_setup, 4, context) == 0, "io_setup");
    check(syscall(SYS_io_submit, *context, 1, list) == 1, "io_submit, with all of it there");
    check(syscall(SYS_io_getevents, *context, 1, 1, event, NULL) == 1 && event->res == 5 && event->obj == (uintptr_t)one, "io_getevents");
    char back[5];
    check(pread(fd, back, 5, 0) == 5 && memcmp(back, "value", 5) == 0, "the file has it");
    check_fails(syscall(SYS_io_setup, 4, not_writable), EFAULT, "io_setup in read-only memory");
    syscall(SYS_io_destroy, *context);
    close(fd);
    unlink("aio");
}

static ssize_t get(pid_t who, struct iovec *l, int locals, struct iovec *r, int remotes, int flags)
{
    return syscall(SYS_process_vm_readv, who, l, locals, r, remotes, flags);
}
static ssize_t put(pid_t who, struct iovec *l, int locals, struct iovec *r, int remotes, int flags)
{
    return syscall(SYS_process_vm_writev, who, l, locals, r, remotes, flags);
}

static void process_vm(void)
{
    static struct iovec many[1025];
    char *theirs = (char *)area; // as rank 1 has it
    pid_t other = *OF(1, &pid);
    struct iovec l = {area, AREA_BYTES}, r = {theirs, AREA_BYTES};
    for (int i = 0; i < AREA_BYTES; i++)
        there[i] = (char)(i * 3 + i / 241);
    memset(area, 0, AREA_BYTES);
    check(get(other, &l, 1, &r, 1, 0) == AREA_BYTES && memcmp(area, there, AREA_BYTES) == 0, "process_vm_readv");
    memset(area, 5, AREA_BYTES);
    check(put(other, &l, 1, &r, 1, 0) == AREA_BYTES && there[0] == 5 && there[AREA_BYTES - 1] == 5, "process_vm_writev");
    check(get(getpid(), &l, 1, &r, 1, 0) == AREA_BYTES, "on oneself");
    for (int i = 0; i < 1025; i++)
        many[i] = (struct iovec){area + 3 * i, 3};
    check(get(other, many, 1024, &r, 1, 0) == 3072 && put(other, &l, 1, many, 1024, 0) == 3072, "1,024 vectors");
    check_fails(get(other, many, 1025, &r, 1, 0), EINVAL, "1,025");
    check_fails(get(other, &l, 1, many, 1025, 0), EINVAL, "on the other side");
    check_fails(get(other, &l, 1, &r, 1, 1), EINVAL, "flags");
    check(get(other, &l, 1, &r, 0, 0) == 0 && get(other, &l, 0, &r, 1, 0) == 0, "no vectors, no bytes");
    check(get(1 << 30, &l, 0, &r, 1, 0) == 0, "of nobody either");
    check_fails(get(1 << 30, &l, 1, &r, 1, 0), ESRCH, "of nobody");
    check_fails(get(-1, &l, 1, &r, 1, 0), ESRCH, "of no process");
    check_fails(get(1, &l, 1, &r, 1, 0), EPERM, "of a process of Linux");
    r.iov_len = (size_t)-1;
    check_fails(get(other, &l, 1, &r, 1, 0), EINVAL, "a negative length there");
    l.iov_len = (size_t)-1, r.iov_len = 10;
    check_fails(get(other, &l, 1, &r, 1, 0), EINVAL, "and here");
    l = (struct iovec){(void *)(UINT64_MAX - 5), 100};
    check_fails(get(other, &l, 1, &r, 1, 0), EFAULT, "a range that wraps");
    l = (struct iovec){area, 100};
    r = (struct iovec){(void *)(UINT64_MAX - 5), 100};
    check_fails(get(other, &l, 1, &r, 1, 0), EFAULT, "there");
    r = (struct iovec){there, 100};
    check_fails(get(other, &l, 1, &r, 1, 0), EFAULT, "an address in a window is none of that rank's own");
    r = (struct iovec){edge - 7, 100};
    check(get(other, &l, 1, &r, 1, 0) == 8, "up to the end of a mapping");
    check(put(other, &l, 1, &r, 1, 0) == 8, "up to there written");
    r = (struct iovec){edge + 1, 100};
    check_fails(get(other, &l, 1, &r, 1, 0), EFAULT, "nothing of what is not mapped");
    r = (struct iovec){read_only, 100};
    check(get(other, &l, 1, &r, 1, 0) == 100, "read-only memory is read");
    check_fails(put(other, &l, 1, &r, 1, 0), EFAULT, "and not written");
    l = (struct iovec){(char *)constant, 16}, r = (struct iovec){theirs, 16};
    check_fails(get(other, &l, 1, &r, 1, 0), EFAULT, "nor is ours");
    l = (struct iovec){OF(1, (char *)area) + 100, 50}, r = (struct iovec){theirs, 50};
    check(get(other, &l, 1, &r, 1, 0) == 50 && memcmp(there, there + 100, 50) == 0, "to a window");
    char *mine = pages(2, PROT_READ | PROT_WRITE);
    munmap(mine + PAGE_BYTES, PAGE_BYTES);
    l = (struct iovec){mine + PAGE_BYTES - 13, 50};
    check(get(other, &l, 1, &r, 1, 0) == 13, "as far as our memory goes");
    struct iovec two[2] = {{area, 20}, {mine + PAGE_BYTES, 5}};
    check(get(other, two, 2, &r, 1, 0) == 20, "up to a vector without memory");
}

// What the other rank has unmapped is not there, though this core has read it. A munmap sends the peers' cores nothing, and
// process_vm_readv went on to find the memory.
static void forgotten(void)
{
    char byte;
    meet(1);
    struct iovec l = {&byte, 1}, r = {*OF(1, &there_once), 1};
    if (own_rank == 0)
        check(get(*OF(1, &pid), &l, 1, &r, 1, 0) == 1 && byte == 'x', "memory that will be unmapped");
    meet(2);
    if (own_rank == 1)
        munmap(there_once, PAGE_BYTES);
    meet(3);
    if (own_rank == 0)
        check_fails(get(*OF(1, &pid), &l, 1, &r, 1, 0), EFAULT, "it has been unmapped");
}

int main(void)
{
    begin_ranks();
    pid = getpid();
    if (own_rank == 1) {
        read_only = pages(1, PROT_READ);
        there_once = pages(1, PROT_READ | PROT_WRITE);
        *there_once = 'x';
        large = pages(LARGE_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
        char *two = pages(2, PROT_READ | PROT_WRITE);
        munmap(two + PAGE_BYTES, PAGE_BYTES);
        edge = two + PAGE_BYTES - 1;
        memset(two, 'x', PAGE_BYTES);
    }
    meet(0);
    if (own_rank == 0) {
        there = OF(1, (char *)area);
        before_edge = OF(1, *OF(1, &edge));
        not_writable = OF(1, *OF(1, &read_only));
        edge = *OF(1, &edge);
        read_only = *OF(1, &read_only);
        made_by_the_kernel();
        told_by_clone();
        files();
        large_buffers();
        messages();
        system_v();
        by_number();
        process_vm();
        programs();
        own_memory_only();
    }
    forgotten();
    pid_t other = *OF(1, &pid); // before it may end
    meet(4);
    if (own_rank == 0) {
        struct iovec l = {area, 10}, r = {area, 10};
        AWAIT(!smartmap_alive(1));
        check_fails(get(other, &l, 1, &r, 1, 0), ESRCH, "of a rank that has ended");
    }
    return end_ranks();
}
