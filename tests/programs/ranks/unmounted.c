// A file system is busy while a file of it is mapped, and nothing else of it in use; unmounted lazily its pages stay. Ranks cannot
// mount: who reads commands from the pipe `ask` does, and writes their statuses to `answer`. /mnt is ours.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

static int requests, answers;
static int status_of(const char *command)
{
    char answer[8] = "";
    need(dprintf(requests, "%s\n", command) > 0 && read(answers, answer, sizeof answer - 1) > 0, "an answer");
    return atoi(answer);
}

static char *mapped_file(void)
{
    need(status_of("mount -t tmpfs none /mnt") == 0, "mount");
    int fd = open("/mnt/f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0, "a file");
    char *p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED && close(fd) == 0, "mmap");
    p[0] = 'm';
    return p;
}

int main(void)
{
    requests = open("ask", O_WRONLY);
    answers = open("answer", O_RDONLY);
    char *p = mapped_file();
    check(status_of("umount /mnt") != 0 && p[0] == 'm', "busy while it is mapped");
    need(munmap(p, PAGE_BYTES) == 0, "munmap");
    check(status_of("umount /mnt") == 0, "unmounted after it");

    p = mapped_file();
    check(status_of("umount --lazy /mnt") == 0 && access("/mnt/f", F_OK) != 0, "unmounted lazily");
    p[1] = 'n';
    check(p[0] == 'm' && p[1] == 'n', "its pages stay");
    pid_t child = forked();
    if (child == 0)
        _exit(p[0] != 'm' || p[1] != 'n');
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "a child's, too");
    need(munmap(p, PAGE_BYTES) == 0, "munmap");
    return check_done();
}
