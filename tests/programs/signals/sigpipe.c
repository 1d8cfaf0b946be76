// SIGPIPE by its default: the write that finds no reader ends the program with
// 128 + 13; its handler, tried before, saw EPIPE from the same call.
#include "../common/check.h"
#include <sys/socket.h>

static volatile int calls;
static void count(int signo) { calls += signo == SIGPIPE; }

// A call that takes over what Linux has for the process.
static void settle(void) { check(kill(0, 0) == 0, "the process group is there"); }

// Linux sends it for streams alone (unix_dgram_sendmsg).
static void packets(int type, const char *what)
{
    int ends[2];
    need(socketpair(AF_UNIX, type, 0, ends) == 0 && shutdown(ends[1], SHUT_RD) == 0, "socketpair");
    calls = 0;
    check_fails(write(ends[0], "abc", 3), EPIPE, what);
    check_fails(send(ends[0], "abc", 3, 0), EPIPE, what);
    check(calls == 0, "sends no signal");
    close(ends[0]), close(ends[1]);
}

int main(void)
{
    int ends[2], sockets[2];
    need(pipe(ends) == 0 && close(ends[0]) == 0, "pipe");
    signal(SIGPIPE, count);
    for (int i = 0; i < 3; i++)
        check_fails(write(ends[1], "abc", 3), EPIPE, "a write without a reader");
    check(calls == 3, "the handler ran each time");
    check(write(ends[1], "", 0) == 0 && calls == 3, "not for an empty write");
    settle();
    check(calls == 3, "not once more by a later call");

    need(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && close(sockets[1]) == 0, "socketpair");
    calls = 0;
    check_fails(send(sockets[0], "abc", 3, 0), EPIPE, "a message to nobody");
    check(calls == 1, "the handler ran");
    check_fails(send(sockets[0], "abc", 3, MSG_NOSIGNAL), EPIPE, "a message that sends no signal");
    settle();
    check(calls == 1, "nor does a later call");
    packets(SOCK_SEQPACKET, "a packet that is not received");
    packets(SOCK_DGRAM, "a datagram that is not received");

    signal(SIGPIPE, SIG_IGN);
    check_fails(write(ends[1], "abc", 3), EPIPE, "a write that is ignored");
    signal(SIGPIPE, SIG_DFL);
    settle();
    check_done();
    fflush(stdout);
    write(ends[1], "abc", 3);
    puts("still here");
    return 1;
}
