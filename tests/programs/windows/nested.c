// System calls whose arguments lead to memory of other ranks by structures: arrays of messages, requests of ioctl and fcntl, sets
// and masks of select and its kin. Until then such calls failed with EFAULT, but for select, which wrote 64 times what a set has.
#include "windows.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { AREA_BYTES = 64 << 10, MESSAGES = 3 };

// Rank 1 has these; rank 0 uses them.
static char area[AREA_BYTES] __attribute__((aligned(PAGE_BYTES)));
static char *_Atomic large; // more than one call bounces
static char *_Atomic edge;  // the last 128 bytes of a page before one that is not there
static char *_Atomic read_only;

enum { LARGE_BYTES = 6 << 20, EDGE_BYTES = 128 };

static char *there, *before_edge, *not_writable;
static int pair[2];

static void fill_messages(struct mmsghdr *messages, struct iovec *vectors, char *data, size_t bytes)
{
    for (int i = 0; i < MESSAGES; i++) {
        vectors[i] = (struct iovec){data + (size_t)i * bytes, bytes};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}, .msg_len = 99};
    }
}

static void many_messages(struct mmsghdr *messages, struct iovec *vectors, const char *where)
{
    memcpy(there, "one  two  three", 15);
    fill_messages(messages, vectors, there, 5);
    check(sendmmsg(pair[0], messages, MESSAGES, 0) == MESSAGES && messages[0].msg_len == 5 && messages[2].msg_len == 5,
          "sendmmsg by structures %s", where);
    memset(there + 100, '.', 100);
    fill_messages(messages, vectors, there + 100, 20);
    messages[1].msg_hdr.msg_flags = 77;
    check(recvmmsg(pair[1], messages, MESSAGES, MSG_DONTWAIT, NULL) == MESSAGES, "recvmmsg by structures %s", where);
    check(messages[0].msg_len == 5 && messages[1].msg_len == 5 && messages[1].msg_hdr.msg_flags == 0 &&
              messages[1].msg_hdr.msg_iov == &vectors[1],
          "says what came");
    check(memcmp(there + 100, "one  ...............two  ...............three....", 49) == 0, "and has it there");
    check(send(pair[0], "alone", 5, 0) == 5, "one message");
    memset(there + 100, '.', 100);
    fill_messages(messages, vectors, there + 100, 20);
    check(recvmmsg(pair[1], messages, MESSAGES, MSG_DONTWAIT, NULL) == 1 && messages[0].msg_len == 5 && messages[1].msg_len == 99,
          "of three messages one");
    check(memcmp(there + 100, "alone...............", 20) == 0 && there[120] == '.', "what did not come is left alone");
    check_fails(recvmmsg(pair[1], messages, MESSAGES, MSG_DONTWAIT, NULL), EAGAIN, "and then none");
}

static void large_messages(void)
{
    static struct mmsghdr messages[MESSAGES];
    static struct iovec vectors[MESSAGES];
    int stream[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0, "socketpair");
    fill_messages(messages, vectors, OF(1, *OF(1, &large)), LARGE_BYTES / MESSAGES);
    int got = recvmmsg(stream[0], messages, MESSAGES, MSG_DONTWAIT, NULL);
    check(got == -1 && errno == EAGAIN, "more than one call bounces");
    check(write(stream[1], area, 1000) == 1000, "bytes for the first");
    got = recvmmsg(stream[0], messages, MESSAGES, MSG_DONTWAIT, NULL);
    check(got == 1 && messages[0].msg_len == 1000, "which come");
    close(stream[0]), close(stream[1]);
}

static void wrong_messages(void)
{
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &(struct iovec){not_writable, 10}, .msg_iovlen = 1}};
    check(send(pair[0], "x", 1, 0) == 1, "a message");
    check_fails(recvmmsg(pair[1], &message, 1, MSG_DONTWAIT, NULL), EFAULT, "to read-only memory");
    check(send(pair[0], "x", 1, 0) == 1, "another message");
    check_fails(recvmmsg(pair[1], (struct mmsghdr *)not_writable, 1, MSG_DONTWAIT, NULL), EFAULT, "by a structure there");
    check_fails(sendmmsg(pair[0], (struct mmsghdr *)(before_edge + EDGE_BYTES - 8), 1, 0), EFAULT, "half beyond a mapping");
    check_fails(sendmmsg(-1, (struct mmsghdr *)there, 1, 0), EBADF, "a wrong descriptor comes first");
    char byte;
    while (recv(pair[1], &byte, 1, MSG_DONTWAIT) >= 0) // what of it is left
        ;
}

static void requests(void)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), pipes[2];
    need(fd >= 0 && pipe(pipes) == 0 && write(pipes[1], "12345", 5) == 5, "a file and a pipe");
    int *number = (int *)there;
    number[0] = number[1] = -1;
    check(ioctl(pipes[0], FIONREAD, number) == 0 && number[0] == 5 && number[1] == -1, "ioctl writes a number there, and no more");
    check_fails(ioctl(pipes[0], FIONREAD, not_writable), EFAULT, "not in read-only memory");
    check_fails(ioctl(pipes[0], FIONREAD, OF(2, (char *)area)), EFAULT, "nor of a rank that is not there");
    check(ioctl(pipes[0], FIONREAD, before_edge + EDGE_BYTES - 4) == 0, "up to the end of a mapping");
    check_fails(ioctl(pipes[0], FIONREAD, before_edge + EDGE_BYTES - 2), EFAULT, "and not beyond");
    *OF(1, (int *)area) = 1;
    check(ioctl(pipes[0], FIONBIO, number) == 0 && fcntl(pipes[0], F_GETFL) & O_NONBLOCK, "ioctl reads a number there");
    check_fails(ioctl(fd, 0xdeadbeef, number), ENOTTY, "an unknown request");
    struct flock *lock = (struct flock *)there;
    *lock = (struct flock){.l_type = F_WRLCK, .l_len = 10};
    check(fcntl(fd, F_SETLK, lock) == 0, "fcntl reads a lock there");
    lock->l_type = F_RDLCK;
    check(fcntl(fd, F_OFD_GETLK, lock) == 0 && lock->l_type == F_WRLCK && lock->l_len == 10, "and writes one");
    check_fails(fcntl(fd, F_OFD_GETLK, not_writable), EFAULT, "but not in read-only memory");
    close(pipes[0]), close(pipes[1]), close(fd);
    unlink("file");
}

// A list of interfaces, by a structure here or there. Structures of ethtool are not bounced: their length is the device's affair.
static void interfaces(void)
{
    static struct ifreq here[64];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    need(fd >= 0, "a socket");
    struct ifconf own = {.ifc_len = sizeof here, .ifc_req = here}, list = {.ifc_len = sizeof here, .ifc_buf = there};
    need(ioctl(fd, SIOCGIFCONF, &own) == 0, "a list of interfaces");
    memset(there, '.', 2 * sizeof here);
    check(ioctl(fd, SIOCGIFCONF, &list) == 0 && list.ifc_len == own.ifc_len && list.ifc_buf == there &&
              memcmp(there, here, (size_t)own.ifc_len) == 0 && there[own.ifc_len] == '.',
          "a list of interfaces goes there");
    struct ifconf *asked = (struct ifconf *)(there + sizeof here);
    memset(there, '.', sizeof here);
    *asked = (struct ifconf){.ifc_len = sizeof here, .ifc_buf = there};
    check(ioctl(fd, SIOCGIFCONF, asked) == 0 && asked->ifc_len == own.ifc_len && asked->ifc_buf == there &&
              memcmp(there, here, (size_t)own.ifc_len) == 0,
          "and is asked for there");
    *asked = own;
    asked->ifc_len = sizeof here;
    check(ioctl(fd, SIOCGIFCONF, asked) == 0 && asked->ifc_len == own.ifc_len, "for memory here");
    *asked = (struct ifconf){.ifc_len = 1};
    check(ioctl(fd, SIOCGIFCONF, asked) == 0 && asked->ifc_len >= own.ifc_len, "how long it would be");
    list = (struct ifconf){.ifc_len = sizeof here, .ifc_buf = not_writable};
    check_fails(ioctl(fd, SIOCGIFCONF, &list), EFAULT, "not in read-only memory");
    check_fails(ioctl(fd, SIOCGIFCONF, OF(2, (char *)area)), EFAULT, "nor by a rank that is not there");
    struct ifreq request = {.ifr_name = "lo", .ifr_data = there};
    check_fails(ioctl(fd, SIOCETHTOOL, &request), EFAULT, "nor is a structure of ethtool");
    close(fd);
}

static void sets_and_masks(void)
{
    int pipes[2];
    need(pipe(pipes) == 0 && write(pipes[1], "x", 1) == 1, "a pipe");
    // A set at the very end of a mapping: as long as the descriptors need it, and no longer.
    unsigned long *set = (unsigned long *)(before_edge + EDGE_BYTES - 8);
    struct timeval *none = (struct timeval *)there;
    memset(there, 0, 64);
    *set = 1UL << pipes[0] | 1UL << pipes[1];
    check(select(pipes[1] + 1, (fd_set *)set, NULL, NULL, none) == 1 && *set == 1UL << pipes[0], "select with a set there");
    check_fails(select(65, (fd_set *)set, NULL, NULL, none), EFAULT, "a set that is too short");
    struct pollfd *polled = (struct pollfd *)(there + 200);
    *polled = (struct pollfd){.fd = pipes[0], .events = POLLIN};
    sigset_t *mask = (sigset_t *)(there + 400);
    sigemptyset(mask);
    const struct timespec *at_once = (struct timespec *)there;
    check(syscall(SYS_ppoll, polled, 1, at_once, mask, 8) == 1 && polled->revents == POLLIN, "ppoll with all of it there");
    struct { sigset_t *mask; size_t bytes; } *arguments = (void *)(there + 600), own = {mask, 8};
    arguments->mask = mask, arguments->bytes = 8;
    *set = 1UL << pipes[0];
    check(syscall(SYS_pselect6, pipes[0] + 1, set, NULL, NULL, at_once, arguments) == 1, "pselect6, too");
    check(syscall(SYS_pselect6, pipes[0] + 1, set, NULL, NULL, at_once, &own) == 1, "with only the mask there");
    own.mask = OF(2, (sigset_t *)area);
    check_fails(syscall(SYS_pselect6, pipes[0] + 1, set, NULL, NULL, at_once, &own), EFAULT, "a mask of a rank that is not there");
    int queue = epoll_create1(0);
    struct epoll_event *events = (struct epoll_event *)(there + 800);
    events->events = EPOLLIN, events->data.u64 = 42;
    check(epoll_ctl(queue, EPOLL_CTL_ADD, pipes[0], events) == 0, "epoll_ctl");
    memset(events, 0, sizeof *events);
    check(syscall(SYS_epoll_pwait, queue, events, 1, 0, mask, (size_t)8) == 1 && events->data.u64 == 42, "epoll_pwait");
    close(queue), close(pipes[0]), close(pipes[1]);
}

// A length that is the last that there is on a page was read as eight bytes: the address had none, and did not come.
static void names(void)
{
    socklen_t *length = (socklen_t *)(before_edge + EDGE_BYTES - sizeof *length);
    struct sockaddr_un *name = (struct sockaddr_un *)there;
    *length = sizeof *name;
    name->sun_family = AF_UNSPEC;
    check(getsockname(pair[0], (struct sockaddr *)name, length) == 0 && *length == sizeof name->sun_family, "getsockname");
    check(name->sun_family == AF_UNIX, "with the name there");
}

// A mask that lies there is in force during the call.
static void woken(int signo) { (void)signo; }
static void masks_are_in_force(void)
{
    sigset_t *mask = (sigset_t *)(there + 400), blocked;
    catch_signal(SIGUSR1, woken, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGUSR1);
    sigemptyset(mask);
    struct { sigset_t *mask; size_t bytes; } own = {mask, 8};
    check_fails(syscall(SYS_ppoll, NULL, 0, NULL, mask, 8), EINTR, "ppoll lets a signal in");
    raise(SIGUSR1);
    check_fails(syscall(SYS_pselect6, 0, NULL, NULL, NULL, NULL, &own), EINTR, "pselect6 does");
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

int main(void)
{
    begin_ranks();
    if (own_rank == 1) {
        read_only = pages(1, PROT_READ);
        large = pages(LARGE_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
        char *two = pages(2, PROT_READ | PROT_WRITE);
        munmap(two + PAGE_BYTES, PAGE_BYTES);
        edge = two + PAGE_BYTES - EDGE_BYTES;
    }
    meet(0);
    if (own_rank == 0) {
        static struct mmsghdr messages[MESSAGES];
        static struct iovec vectors[MESSAGES];
        there = OF(1, (char *)area);
        before_edge = OF(1, *OF(1, &edge));
        not_writable = OF(1, *OF(1, &read_only));
        need(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "socketpair");
        many_messages(messages, vectors, "here");
        many_messages((struct mmsghdr *)(there + 4096), (struct iovec *)(there + 8192), "there");
        large_messages();
        wrong_messages();
        requests();
        interfaces();
        names();
        sets_and_masks();
        masks_are_in_force();
    }
    meet(1);
    return end_ranks();
}
