// TCP and UDP over the loopback network: connections, datagrams, options,
// errors; only this program takes part.
#include "../common/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct sockaddr *any(void *address) { return address; }

// The loopback address with a port that Linux has chosen for the socket.
static struct sockaddr_in bound(int fd)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    need(bind(fd, any(&name), sizeof name) == 0 && getsockname(fd, any(&name), &length) == 0, "bind");
    return name;
}

static int waits_for(int fd, short events)
{
    struct pollfd one = {fd, events, 0};
    return poll(&one, 1, 5000) == 1 ? one.revents : 0;
}

static void connections(void)
{
    int listening = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), value = 0;
    struct sockaddr_in name = bound(listening), peer = {0}, own = {0};
    socklen_t length = sizeof value, size = sizeof peer;
    need(listen(listening, 4) == 0, "listen");
    long result = connect(near, any(&name), sizeof name);
    check(result == 0 || errno == EINPROGRESS, "connect does not wait");
    check(waits_for(near, POLLOUT) == POLLOUT && getsockopt(near, SOL_SOCKET, SO_ERROR, &value, &length) == 0 && value == 0,
          "it is done when poll says so");
    check(waits_for(listening, POLLIN) == POLLIN, "somebody waits");
    int far = accept4(listening, any(&peer), &size, SOCK_CLOEXEC);
    size = sizeof own;
    need(far >= 0 && getsockname(near, any(&own), &size) == 0, "accept4");
    check(peer.sin_family == AF_INET && peer.sin_port == own.sin_port && peer.sin_addr.s_addr == own.sin_addr.s_addr,
          "accept4 says who");
    int on = 1;
    check(setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
              getsockopt(near, IPPROTO_TCP, TCP_NODELAY, &value, &length) == 0 && value == 1,
          "TCP_NODELAY");
    check(getsockopt(near, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_STREAM, "SO_TYPE");

    // More than the buffers hold, by turns.
    static char out[1 << 16], in[1 << 16];
    size_t sent = 0, received = 0, total = 8 << 20;
    int right = 1;
    fcntl(far, F_SETFL, O_NONBLOCK);
    while (received < total && right) {
        size_t room = total - sent < sizeof out ? total - sent : sizeof out;
        for (size_t i = 0; i < room; i++)
            out[i] = (char)((sent + i) * 7 >> 4);
        ssize_t n = room ? send(near, out, room, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        right &= waits_for(far, POLLIN) == POLLIN;
        n = recv(far, in, sizeof in, 0);
        for (ssize_t i = 0; i < n; i++)
            right &= in[i] == (char)((received + (size_t)i) * 7 >> 4);
        received += n > 0 ? (size_t)n : 0;
    }
    check(right && received == total, "8 MiB arrive in order");
    check_fails(recv(far, in, 1, 0), EAGAIN, "and no more");
    check(send(near, "!", 1, MSG_OOB) == 1 && waits_for(far, POLLPRI) == POLLPRI && recv(far, in, 1, MSG_OOB) == 1 && in[0] == '!',
          "urgent data");
    check(shutdown(near, SHUT_WR) == 0 && waits_for(far, POLLIN) && recv(far, in, 1, 0) == 0, "the end");
    check(send(far, "back", 4, 0) == 4 && waits_for(near, POLLIN) && recv(near, in, 8, 0) == 4, "of one direction");
    close(far);
    close(near);
    close(listening);
    near = socket(AF_INET, SOCK_STREAM, 0);
    check_fails(connect(near, any(&name), sizeof name), ECONNREFUSED, "nobody listens any more");
    close(near);
}

static void datagrams(void)
{
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0), bytes = 0;
    struct sockaddr_in to = bound(other), mine = bound(one), from = {0};
    socklen_t length = sizeof from;
    char text[64];
    check(sendto(one, "hello", 5, 0, any(&to), sizeof to) == 5 && waits_for(other, POLLIN), "sendto");
    check(ioctl(other, FIONREAD, &bytes) == 0 && bytes == 5, "FIONREAD");
    check(recvfrom(other, text, sizeof text, 0, any(&from), &length) == 5 && from.sin_port == mine.sin_port, "recvfrom says who");
    check(sendto(other, "", 0, 0, any(&from), sizeof from) == 0 && waits_for(one, POLLIN) && recv(one, text, 8, 0) == 0,
          "one of no bytes");
    check(connect(one, any(&to), sizeof to) == 0 && send(one, "a", 1, 0) == 1, "connected, send needs no address");
    check(waits_for(other, POLLIN) && recv(other, text, 8, 0) == 1, "and arrives");

    enum { COUNT = 3 };
    struct iovec parts[COUNT][2];
    struct mmsghdr messages[COUNT] = {0};
    struct sockaddr_in names[COUNT];
    char got[COUNT][8];
    int right = 1;
    for (int i = 0; i < COUNT; i++) {
        parts[i][0] = (struct iovec){"num", 3};
        parts[i][1] = (struct iovec){"01234" + i, 1};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = parts[i], .msg_iovlen = 2};
    }
    check(sendmmsg(one, messages, COUNT, 0) == COUNT, "sendmmsg");
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < COUNT; i++) {
        parts[i][0] = (struct iovec){got[i], sizeof got[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &names[i], .msg_namelen = sizeof names[i], .msg_iov = parts[i], .msg_iovlen = 1};
    }
    int all = 0;
    while (all < COUNT && waits_for(other, POLLIN)) {
        int more = recvmmsg(other, messages + all, (unsigned)(COUNT - all), MSG_DONTWAIT, NULL);
        all += more > 0 ? more : COUNT;
    }
    for (int i = 0; i < COUNT; i++)
        right &= messages[i].msg_len == 4 && got[i][3] == '0' + i && names[i].sin_port == mine.sin_port &&
                 messages[i].msg_hdr.msg_namelen == sizeof names[i];
    check(all == COUNT && right, "recvmmsg, each with its sender");
    static char big[1 << 17];
    check_fails(send(one, big, sizeof big, 0), EMSGSIZE, "more than a datagram holds");
    close(one);
    close(other);
}

static void six(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), on = 1, value = 0;
    socklen_t length = sizeof value;
    // A host may have no such addresses.
    check(fd < 0 || (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0 &&
                     getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, &length) == 0 && value == 1),
          "IPv6, where there is");
    close(fd);
    check_fails(socket(AF_INET, 99, 0), EINVAL, "no such type");
    check_fails(socket(AF_INET, SOCK_STREAM, 99), EPROTONOSUPPORT, "no such protocol");
}

int main(void)
{
    connections();
    datagrams();
    six();
    return check_done();
}
