// A signal that a call of the process itself causes is there when the call returns: its handler has run before the next statement.
//
// Regression: it came later, mostly.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { ROUNDS = 200 };

static volatile sig_atomic_t caught;
static void on_signal(int signo)
{
    (void)signo;
    caught++;
}

static void of_a_pipe(int by_ioctl)
{
    int ends[2], there = 0, on = 1;
    char byte;
    need(pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getpid()) == 0, "pipe");
    need((by_ioctl ? ioctl(ends[0], FIOASYNC, &on) : fcntl(ends[0], F_SETFL, O_ASYNC)) == 0, "O_ASYNC");
    for (int i = 0; i < ROUNDS; i++) {
        caught = 0;
        need(write(ends[1], "x", 1) == 1, "write");
        there += caught != 0;
        need(read(ends[0], &byte, 1) == 1, "read");
    }
    check(there == ROUNDS, "a pipe that it writes to, %d of %d", there, ROUNDS);
    close(ends[0]);
    close(ends[1]);
}

static void of_a_directory(void)
{
    int there = 0, fd = open(".", O_RDONLY);
    need(fd >= 0, "open");
    if (fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) != 0) {
        need(errno == EINVAL, "F_NOTIFY"); // a kernel without it
        there = ROUNDS;
    }
    for (int i = 0; there < ROUNDS && i < ROUNDS; i++) {
        caught = 0;
        need(mkdir("d", 0700) == 0, "mkdir");
        there += caught != 0;
        need(rmdir("d") == 0, "rmdir");
    }
    check(there == ROUNDS, "a directory that it changes, %d of %d", there, ROUNDS);
}

int main(void)
{
    need(signal(SIGIO, on_signal) != SIG_ERR, "signal");
    of_a_pipe(0);
    of_a_pipe(1);
    of_a_directory();
    return check_done();
}
