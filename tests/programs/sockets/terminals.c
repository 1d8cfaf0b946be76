// Pseudoterminals: both ends, line editing, window sizes, raw mode, the end.
// This program's own controlling terminal, if it has one, is not touched.
#include "../common/check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

static int master, slave;

// What arrives within some time, as text.
static const char *got(int fd)
{
    static char text[256];
    struct pollfd one = {fd, POLLIN, 0};
    ssize_t length = poll(&one, 1, 5000) == 1 ? read(fd, text, sizeof text - 1) : 0;
    text[length > 0 ? length : 0] = 0;
    return text;
}

static int waits(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1;
}

int main(void)
{
    struct termios modes;
    struct winsize size = {24, 80, 0, 0}, seen = {0};
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    need(master >= 0 && grantpt(master) == 0, "posix_openpt");
    check(isatty(master) && strncmp(ptsname(master), "/dev/pts/", 9) == 0, "a terminal with a name");
    check_fails(open(ptsname(master), O_RDWR | O_NOCTTY), EIO, "its other end, still locked");
    check(unlockpt(master) == 0, "unlocked");
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    check(slave >= 0 && isatty(slave) && strcmp(ttyname(slave), ptsname(master)) == 0, "its other end by its name");

    check(write(master, "typ\x7fped", 7) == 7 && !waits(slave), "a line is not read before its end");
    check(write(master, "\n", 1) == 1 && strcmp(got(slave), "typed\n") == 0, "then it is, as edited");
    need(tcflush(master, TCIOFLUSH) == 0, "tcflush");
    check(write(slave, "out\n", 4) == 4 && strstr(got(master), "out\r\n") != NULL, "what is written, with a carriage return");

    check(ioctl(master, TIOCSWINSZ, &size) == 0 && ioctl(slave, TIOCGWINSZ, &seen) == 0 && seen.ws_col == 80, "window sizes");
    need(tcgetattr(slave, &modes) == 0, "tcgetattr");
    cfmakeraw(&modes);
    check(tcsetattr(slave, TCSAFLUSH, &modes) == 0 && write(master, "a", 1) == 1 && strcmp(got(slave), "a") == 0, "raw: byte by byte");
    check(!waits(master), "without an echo");
    check_fails(tcgetpgrp(slave), ENOTTY, "it is not the controlling terminal");
    int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(peer >= 0 && write(peer, "p", 1) == 1 && strcmp(got(master), "p") == 0, "TIOCGPTPEER");
    close(peer);
    close(slave);
    char byte;
    check_fails(read(master, &byte, 1), EIO, "after the other end is closed");
    close(master);
    return check_done();
}
