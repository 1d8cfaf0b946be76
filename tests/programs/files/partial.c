// A call that moves less than requested returns how much: into a pipe that has
// room for a part, out of one that has a part, at the end of a file, and at a
// limit on files' sizes.
#include "../common/check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>

enum { ROOM = 1 << 16, MUCH = 5 << 15, PIECES = 5 };

static char data[MUCH], back[MUCH];

static void fill(void)
{
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 31 / 7);
}

static int same(size_t bytes)
{
    return memcmp(data, back, bytes) == 0;
}

static void pipes(void)
{
    struct iovec vector[PIECES];
    int ends[2];

    check(pipe2(ends, O_NONBLOCK) == 0, "pipe2");
    check(write(ends[1], data, MUCH) == ROOM, "write: as much as there is room for");
    check_fails(write(ends[1], data, 1), EAGAIN, "write into a full pipe");
    check(read(ends[0], back, MUCH) == ROOM && same(ROOM), "read: as much as there is");
    for (int i = 0; i < PIECES; i++)
        vector[i] = (struct iovec){ data + i * (MUCH / PIECES), MUCH / PIECES };
    check(writev(ends[1], vector, PIECES) == ROOM, "writev: two pieces of five");
    for (int i = 0; i < PIECES; i++)
        vector[i].iov_base = back + i * (MUCH / PIECES);
    memset(back, 0, sizeof back);
    check(readv(ends[0], vector, PIECES) == ROOM && same(ROOM) && back[ROOM] == 0, "readv: two pieces of five");
    close(ends[0]);
    close(ends[1]);
}

static void files(void)
{
    struct rlimit limit = { 3 * PAGE_BYTES + 5, RLIM_INFINITY };
    int file = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 3 * PAGE_BYTES + 5;
    signal(SIGXFSZ, SIG_IGN);
    check(setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit on files' sizes");
    check(write(file, data, MUCH) == 3 * PAGE_BYTES + 5, "write: as much as the limit allows");
    check_fails(write(file, data, 1), EFBIG, "write at the limit");
    check(pread(file, back, MUCH, PAGE_BYTES) == 2 * PAGE_BYTES + 5, "pread: as much as the file has");
    check(memcmp(back, data + PAGE_BYTES, 2 * PAGE_BYTES + 5) == 0, "and that is what was written");
    check(pread(file, back, MUCH, 4 * PAGE_BYTES) == 0, "pread behind the end");
    close(file);
    unlink("file");
}

int main(void)
{
    fill();
    pipes();
    files();
    return check_done();
}
