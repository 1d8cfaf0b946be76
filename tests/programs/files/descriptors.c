// Descriptors: the lowest free number, dup, dup2, dup3 and F_DUPFD, shared
// offsets and status flags, close-on-exec flags that are not shared.
#include "../common/check.h"
#include <fcntl.h>

int main(void)
{
    char c;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && write(fd, "abcdefgh", 8) == 8, "file");
    check(fd == 3, "the first descriptor is 3");

    int second = dup(fd);
    check(second == 4, "dup gives 4");
    check(lseek(fd, 2, SEEK_SET) == 2 && read(second, &c, 1) == 1 && c == 'c', "they share the offset");
    int own = open("f", O_RDONLY);
    check(own == 5 && read(own, &c, 1) == 1 && c == 'a', "a second open has its own");

    check(close(fd) == 0 && open("f", O_RDONLY) == 3, "a closed number is used again");
    check(dup2(second, 10) == 10 && lseek(10, 0, SEEK_CUR) == 3, "dup2 to 10");
    check(dup2(second, own) == own && lseek(own, 0, SEEK_CUR) == 3, "dup2 over an open one closes it first");
    check(dup2(second, second) == second, "dup2 to itself");
    check_fails(dup2(99, 11), EBADF, "dup2 of a closed one");
    check_fails(dup2(99, 99), EBADF, "dup2 of a closed one to itself");
    check_fails(dup2(second, -1), EBADF, "dup2 to -1");
    check_fails(dup3(second, second, 0), EINVAL, "dup3 to itself");
    check_fails(dup(-1), EBADF, "dup of -1");

    check(fcntl(second, F_DUPFD, 20) == 20, "F_DUPFD from 20");
    check(fcntl(second, F_DUPFD, 20) == 21, "F_DUPFD from 20 again");
    check_fails(fcntl(second, F_DUPFD, -1), EINVAL, "F_DUPFD from -1");
    check(fcntl(second, F_GETFD) == 0, "no close-on-exec at first");
    check(fcntl(second, F_SETFD, FD_CLOEXEC) == 0 && fcntl(second, F_GETFD) == FD_CLOEXEC, "F_SETFD");
    check(fcntl(20, F_GETFD) == 0, "which a duplicate does not share");
    check(dup3(second, 30, O_CLOEXEC) == 30 && fcntl(30, F_GETFD) == FD_CLOEXEC, "dup3 with O_CLOEXEC");
    check(fcntl(second, F_DUPFD_CLOEXEC, 40) == 40 && fcntl(40, F_GETFD) == FD_CLOEXEC, "F_DUPFD_CLOEXEC");

    check((fcntl(second, F_GETFL) & O_ACCMODE) == O_RDWR, "F_GETFL says O_RDWR");
    check(fcntl(second, F_SETFL, O_APPEND) == 0 && (fcntl(20, F_GETFL) & O_APPEND), "O_APPEND is shared");
    lseek(20, 0, SEEK_SET);
    check(write(20, "!", 1) == 1 && lseek(20, 0, SEEK_CUR) == 9, "and obeyed");
    check_fails(fcntl(second, 9999), EINVAL, "an unknown fcntl");
    check_fails(fcntl(99, F_GETFL), EBADF, "fcntl of a closed one");

    // stdout moved away and back: what is written meanwhile lands in the file.
    fflush(stdout);
    int saved = dup(1);
    int log = open("log", O_CREAT | O_WRONLY, 0600);
    need(saved >= 0 && dup2(log, 1) == 1, "redirect");
    printf("this line is in the file log\n");
    fflush(stdout);
    check(dup2(saved, 1) == 1, "stdout went to a file and came back");

    enum { F_DUPFD_QUERY_ = 1027, F_CREATED_QUERY_ = 1028 };
    int made = open("made", O_CREAT | O_RDONLY, 0600), twin = dup(made), apart = open("made", O_CREAT | O_RDONLY, 0600);
    need(made >= 0 && twin >= 0 && apart >= 0, "descriptors");
    if (fcntl(made, F_CREATED_QUERY_) >= 0) { // since Linux 6.12
        check(fcntl(made, F_CREATED_QUERY_) == 1 && fcntl(apart, F_CREATED_QUERY_) == 0, "who has made the file");
        check(fcntl(made, F_DUPFD_QUERY_, twin) == 1 && fcntl(made, F_DUPFD_QUERY_, apart) == 0, "which are one file");
        check_fails(fcntl(made, F_DUPFD_QUERY_, 99), EBADF, "and a closed one");
    }
    return check_done();
}
