// A signal during a blocking read of a pipe: EINTR without SA_RESTART; with it
// the read goes on and gets the byte that the handler wrote, but not on a
// socket that has a timeout: that would begin anew each time (signal(7)).
#include "../common/check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

static int ends[2];
static volatile int calls, write_after;

static void handler(int signo)
{
    (void)signo;
    if (++calls >= write_after && write_after > 0) {
        write(ends[1], "z", 1);
        write_after = 0;
    }
}

static void timer(int interval_us)
{
    struct itimerval t = {{0, interval_us}, {0, interval_us}};
    need(setitimer(ITIMER_REAL, &t, NULL) == 0, "setitimer");
}

static char bytes[4096];
static struct iovec vector = {bytes, sizeof bytes};
static struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
static ssize_t by_read(int fd) { return read(fd, bytes, sizeof bytes); }
static ssize_t by_readv(int fd) { return readv(fd, &vector, 1); }
static ssize_t by_recv(int fd) { return recv(fd, bytes, sizeof bytes, 0); }
static ssize_t by_recvmsg(int fd) { return recvmsg(fd, &message, 0); }
static ssize_t by_write(int fd) { return write(fd, bytes, sizeof bytes); }
static ssize_t by_writev(int fd) { return writev(fd, &vector, 1); }
static ssize_t by_send(int fd) { return send(fd, bytes, sizeof bytes, 0); }
static ssize_t by_sendmsg(int fd) { return sendmsg(fd, &message, 0); }

static void with_timeout(int option, ssize_t (*call)(int), const char *what)
{
    int sockets[2];
    struct timeval limit = {.tv_sec = 100};
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    need(setsockopt(sockets[0], SOL_SOCKET, option, &limit, sizeof limit) == 0, "setsockopt");
    while (option == SO_SNDTIMEO && send(sockets[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    timer(20000);
    check_fails(call(sockets[0]), EINTR, what);
    timer(0);
    close(sockets[0]), close(sockets[1]);
}

int main(void)
{
    char buf[8];
    struct sigaction action = {.sa_handler = handler};
    need(pipe(ends) == 0 && sigaction(SIGALRM, &action, NULL) == 0, "set-up");

    timer(20000);
    check_fails(read(ends[0], buf, 1), EINTR, "without SA_RESTART");
    check(calls >= 1, "its handler ran");
    timer(0);
    check(write(ends[1], "abc", 3) == 3 && read(ends[0], buf, 8) == 3, "no byte was lost");

    action.sa_flags = SA_RESTART;
    need(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    calls = 0;
    write_after = 5;
    timer(20000);
    check(read(ends[0], buf, 1) == 1 && buf[0] == 'z', "with SA_RESTART the read goes on");
    check(calls >= 5, "over five signals");
    timer(0);

    with_timeout(SO_RCVTIMEO, by_read, "a read with a timeout");
    with_timeout(SO_RCVTIMEO, by_readv, "a readv with a timeout");
    with_timeout(SO_RCVTIMEO, by_recv, "a recv with a timeout");
    with_timeout(SO_RCVTIMEO, by_recvmsg, "a recvmsg with a timeout");
    with_timeout(SO_SNDTIMEO, by_write, "a write with a timeout");
    with_timeout(SO_SNDTIMEO, by_writev, "a writev with a timeout");
    with_timeout(SO_SNDTIMEO, by_send, "a send with a timeout");
    with_timeout(SO_SNDTIMEO, by_sendmsg, "a sendmsg with a timeout");

    // Signals that strike during transfers: nothing lost, nothing doubled.
    calls = 0;
    timer(2000);
    int fd = open("f", O_CREAT | O_RDWR, 0600), right = 1;
    static uint64_t words[8192];
    need(fd >= 0, "open");
    for (int round = 0; round < 200 || calls < 10; round++) {
        seq_fill(words, (uint64_t)round * 8192, 8192);
        right &= pwrite(fd, words, sizeof words, 0) == sizeof words;
        memset(words, 0, sizeof words);
        right &= pread(fd, words, sizeof words, 0) == sizeof words;
        right &= seq_matches(words, (uint64_t)round * 8192, 8192);
    }
    timer(0);
    unlink("f"); // its contents depend on how often it was written
    check(right, "file transfers are complete under a rain of signals");
    return check_done();
}
