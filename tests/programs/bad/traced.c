// Makes one call of each kind that a trace shows in a way of its own, in the
// file that its first argument names; then ends with 3, or with a second
// argument waits for ever.
#include "../common/check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

static void nothing(int signo) { (void)signo; }
// Once more, for the first may come before the wait for it begins.
static void again(int signo) { (void)signo, alarm(1); }

int main(int argc, char **argv)
{
    char buffer[64];
    struct stat status;
    int fd = open(argc > 1 ? argv[1] : "traced.tmp", O_RDWR | O_CREAT | O_TRUNC, 0640);
    need(fd >= 0, "open");
    need(write(fd, "hello\n\1", 7) == 7, "write");
    lseek(fd, 0, SEEK_SET);
    need(read(fd, buffer, sizeof buffer) == 7, "read");
    need(fstat(fd, &status) == 0, "fstat");
    struct iovec vectors[] = {{"ab", 2}, {"cde", 3}};
    need(writev(fd, vectors, 2) == 5, "writev");
    close(fd);
    unlink(argc > 1 ? argv[1] : "traced.tmp");
    stat("/nonexistent\33[2J", &status);
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    kill(getpid(), SIGUSR1);
    int ends[2];
    need(pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "pipe");
    struct pollfd polled = {ends[0], POLLIN, 0};
    need(poll(&polled, 1, -1) == 1, "poll");
    struct sockaddr_un address = {AF_UNIX, "/nonexistent/socket"};
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
    if (argc > 2)
        pause();
    signal(SIGALRM, again);
    alarm(1);
    pause();
    return 3;
}
