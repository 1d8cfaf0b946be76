// A child keeps the frames of shared memory that its parent has unmapped: a rank
// whose node has no room in its pool for that and a file. Runs on a node only.
#include "../common/parallel.h"
#include <fcntl.h>
#include <sys/wait.h>

enum { RW = PROT_READ | PROT_WRITE, KEPT_BYTES = 4 << 20, FILE_BYTES = 13 << 20 };

static char *map_file(void)
{
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0, "a file");
    char *p = mmap(NULL, FILE_BYTES, RW, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

int main(void)
{
    int pipes[2], status;
    char byte, *memory = mmap(NULL, KEPT_BYTES, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(memory != MAP_FAILED && pipe(pipes) == 0, "mmap");
    memset(memory, 'a', KEPT_BYTES);
    pid_t pid = forked();
    if (pid == 0) {
        close(pipes[1]);
        read(pipes[0], &byte, 1);
        _exit(all_bytes(memory, 'a', KEPT_BYTES) ? 0 : 1);
    }
    munmap(memory, KEPT_BYTES);
    check(map_file() == MAP_FAILED && errno == ENOMEM, "there is no room while the child has it");
    close(pipes[1]);
    check(waitpid(pid, &status, 0) == pid && status == 0, "which stays as it was");
    char *file = map_file();
    check(file != MAP_FAILED && all_bytes(file, 0, FILE_BYTES), "then there is");
    return check_done();
}
