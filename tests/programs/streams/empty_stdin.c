// stdin without data (/dev/null): every way of reading sees the end at once
// and again, and a program can close it and open something else as 0.
#include "../common/check.h"
#include <fcntl.h>

int main(void)
{
    char buf[16];
    char *line = NULL;
    size_t room = 0;
    check(read(0, buf, sizeof buf) == 0, "read gives 0");
    check(getchar() == EOF && feof(stdin), "getchar gives EOF");
    clearerr(stdin);
    check(fgets(buf, sizeof buf, stdin) == NULL, "fgets gives NULL");
    clearerr(stdin);
    check(getline(&line, &room, stdin) == -1, "getline gives -1");
    free(line);
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd == 3 && write(fd, "from a file\n", 12) == 12 && lseek(fd, 0, SEEK_SET) == 0, "file");
    check(close(0) == 0 && dup(fd) == 0, "the file takes the place of stdin");
    clearerr(stdin);
    check(fgets(buf, sizeof buf, stdin) != NULL && strcmp(buf, "from a file\n") == 0, "and is read through it");
    check(freopen("/dev/zero", "r", stdin) != NULL, "freopen of /dev/zero");
    check(fread(buf, 1, 16, stdin) == 16 && all_bytes(buf, 0, 16), "gives zeros");
    fd = open("/dev/full", O_WRONLY);
    check_fails(write(fd, "x", 1), ENOSPC, "writing to /dev/full");
    fd = open("/dev/null", O_WRONLY);
    check(write(fd, buf, 16) == 16, "/dev/null takes all");
    return check_done();
}
