// Sockets of the local domain: descriptors and credentials that travel with
// messages, kinds of sockets, names, several messages in one call.
#include "../common/check.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int ends[2];

static void pair(int type)
{
    need(socketpair(AF_UNIX, type, 0, ends) == 0, "socketpair");
}

static void unpair(void)
{
    close(ends[0]);
    close(ends[1]);
}

// Sends one byte with these descriptors.
static long send_descriptors(int to, const int *fds, int count)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    char byte = 'd';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    return sendmsg(to, &message, 0);
}

// Receives a byte and what comes with it of this type; how many bytes that are.
static int receive(int from, int type, void *data, int flags, int *seen)
{
    union {
        char bytes[256];
        struct cmsghdr align;
    } control = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int got = -1;
    if (recvmsg(from, &message, flags) != 1)
        return -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == type) {
            got = (int)(header->cmsg_len - CMSG_LEN(0));
            memcpy(data, CMSG_DATA(header), (size_t)got);
        }
    *seen = message.msg_flags;
    return got;
}

static void descriptors(void)
{
    int file = open("sent", O_RDWR | O_CREAT | O_EXCL, 0600), pipe_ends[2], got[8], flags = 0;
    struct stat here, there;
    char text[8] = "";
    need(file >= 0 && write(file, "of file", 7) == 7 && pipe(pipe_ends) == 0, "something to send");
    pair(SOCK_STREAM);
    int both[] = {file, pipe_ends[1]};
    check(send_descriptors(ends[0], both, 2) == 1, "two descriptors are sent");
    check(receive(ends[1], SCM_RIGHTS, got, MSG_CMSG_CLOEXEC, &flags) == 2 * (int)sizeof(int) && !(flags & MSG_CTRUNC),
          "and received");
    check(got[0] != file && fstat(file, &here) == 0 && fstat(got[0], &there) == 0 && here.st_ino == there.st_ino,
          "the first is the file by another number");
    check(lseek(file, 3, SEEK_SET) == 3 && read(got[0], text, 4) == 4 && memcmp(text, "file", 4) == 0,
          "with one offset for both");
    check(fcntl(got[0], F_GETFD) == FD_CLOEXEC && fcntl(got[1], F_GETFD) == FD_CLOEXEC, "MSG_CMSG_CLOEXEC");
    check(write(got[1], "pipe", 4) == 4 && read(pipe_ends[0], text, 4) == 4 && memcmp(text, "pipe", 4) == 0,
          "the second writes into the pipe");
    close(got[0]);
    close(got[1]);
    both[1] = 999;
    check_fails(send_descriptors(ends[0], both, 2), EBADF, "one that is closed");
    close(file);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    unpair();
    unlink("sent");
}

static void credentials(void)
{
    struct ucred mine = {getpid(), getuid(), getgid()}, peer, got = {0};
    socklen_t length = sizeof peer;
    int on = 1, flags = 0;
    char byte = 'c';
    pair(SOCK_DGRAM);
    check(getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && memcmp(&peer, &mine, sizeof mine) == 0,
          "SO_PEERCRED is this process");
    need(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "SO_PASSCRED");
    check(send(ends[0], &byte, 1, 0) == 1 && receive(ends[1], SCM_CREDENTIALS, &got, 0, &flags) == (int)sizeof got &&
              memcmp(&got, &mine, sizeof mine) == 0,
          "who sent comes with the message");
    unpair();
}

static void kinds(void)
{
    static const struct {
        int type;
        const char *name;
        long first;
    } kinds[] = {{SOCK_STREAM, "a stream", 6}, {SOCK_DGRAM, "datagrams", 3}, {SOCK_SEQPACKET, "packets in order", 3}};
    char text[16];
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pair(kinds[i].type);
        need(send(ends[0], "one", 3, 0) == 3 && send(ends[0], "two", 3, 0) == 3, "send");
        check(recv(ends[1], text, sizeof text, 0) == kinds[i].first, "%s", kinds[i].name);
        unpair();
    }
    pair(SOCK_SEQPACKET);
    struct msghdr message = {.msg_iov = &(struct iovec){text, 2}, .msg_iovlen = 1};
    need(send(ends[0], "longer", 6, 0) == 6, "send");
    check(recvmsg(ends[1], &message, 0) == 2 && (message.msg_flags & MSG_TRUNC), "a packet that is cut says so");
    need(send(ends[0], "again", 5, 0) == 5, "send");
    check(recv(ends[1], text, 5, MSG_PEEK) == 5 && recv(ends[1], text, 5, MSG_DONTWAIT) == 5, "MSG_PEEK leaves it");
    check_fails(recv(ends[1], text, 5, MSG_DONTWAIT), EAGAIN, "nothing more");
    close(ends[1]);
    check_fails(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE, "nobody there");
    close(ends[0]);
}

static void names(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "named"}, seen = {0};
    socklen_t length = sizeof seen;
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), near = socket(AF_UNIX, SOCK_STREAM, 0);
    check_fails(connect(near, (struct sockaddr *)&name, sizeof name), ENOENT, "no such socket");
    need(bind(listening, (struct sockaddr *)&name, sizeof name) == 0, "bind");
    check_fails(connect(near, (struct sockaddr *)&name, sizeof name), ECONNREFUSED, "that does not listen");
    check_fails(bind(near, (struct sockaddr *)&name, sizeof name), EADDRINUSE, "a name that is taken");
    need(listen(listening, 4) == 0 && connect(near, (struct sockaddr *)&name, sizeof name) == 0, "connect");
    int far = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    check(fcntl(far, F_GETFD) == FD_CLOEXEC && (fcntl(far, F_GETFL) & O_NONBLOCK), "accept4 with both flags");
    check(getpeername(near, (struct sockaddr *)&seen, &length) == 0 && strcmp(seen.sun_path, "named") == 0, "getpeername");
    char text[4];
    check_fails(read(far, text, 4), EAGAIN, "nothing to read yet");
    check(write(near, "hey", 4) == 4 && read(far, text, 4) == 4 && strcmp(text, "hey") == 0, "a message");
    close(near);
    close(far);
    close(listening);
    unlink("named");
}

// Several datagrams by one call, and no more than there are.
static void many(void)
{
    enum { COUNT = 4 };
    char texts[COUNT][8] = {"a", "bb", "ccc", "dddd"}, got[COUNT + 2][8];
    struct iovec parts[COUNT + 2];
    struct mmsghdr messages[COUNT + 2] = {0};
    struct timespec moment = {0, 1000000};
    int right = 1;
    pair(SOCK_DGRAM);
    for (int i = 0; i < COUNT; i++) {
        parts[i] = (struct iovec){texts[i], strlen(texts[i])};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    check(sendmmsg(ends[0], messages, COUNT, 0) == COUNT, "sendmmsg");
    for (int i = 0; i < COUNT; i++)
        right &= messages[i].msg_len == (unsigned)i + 1;
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < COUNT + 2; i++) {
        parts[i] = (struct iovec){got[i], sizeof got[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    check(recvmmsg(ends[1], messages, COUNT + 2, MSG_DONTWAIT, NULL) == COUNT, "recvmmsg");
    for (int i = 0; i < COUNT; i++)
        right &= messages[i].msg_len == (unsigned)i + 1 && memcmp(got[i], texts[i], (size_t)i + 1) == 0;
    check(right, "each with its length");
    need(send(ends[0], "last", 4, 0) == 4, "send");
    check(recvmmsg(ends[1], messages, 2, MSG_WAITFORONE, &moment) == 1 && messages[0].msg_len == 4, "MSG_WAITFORONE");
    unpair();
}

int main(void)
{
    descriptors();
    credentials();
    kinds();
    names();
    many();
    return check_done();
}
