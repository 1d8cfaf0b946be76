// A child keeps the frames of a file that its parent has unmapped: a rank whose
// node has no room in its pool for two such files. Runs on a node only.
#include "../common/parallel.h"
#include <fcntl.h>
#include <sys/wait.h>

enum { RW = PROT_READ | PROT_WRITE, BYTES = 3 << 20 };

static char *map(const char *name)
{
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, name);
    char *p = mmap(NULL, BYTES, RW, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

static int all(const char *p, char byte)
{
    for (int i = 0; i < BYTES; i++)
        if (p[i] != byte)
            return 0;
    return 1;
}

int main(void)
{
    int pipes[2], status;
    char byte, *first = map("first");
    need(first != MAP_FAILED && pipe(pipes) == 0, "mmap");
    memset(first, 'a', BYTES);
    pid_t pid = forked();
    if (pid == 0) {
        close(pipes[1]);
        read(pipes[0], &byte, 1);
        _exit(all(first, 'a') ? 0 : 1);
    }
    munmap(first, BYTES);
    check(map("second") == MAP_FAILED && errno == ENOMEM, "there is no room while the child has the first file");
    close(pipes[1]);
    check(waitpid(pid, &status, 0) == pid && status == 0, "which stays as it was");
    char *second = map("second");
    check(second != MAP_FAILED && all(second, 0), "then there is");
    return check_done();
}
