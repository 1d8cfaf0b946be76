// Files of a file system that is mounted with noexec: `noexec FILE`.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char *refused(int fd, size_t bytes, int how, const char *what)
{
    char *p = mmap(NULL, bytes, PROT_READ, how, fd, 0);
    need(p != MAP_FAILED, "mmap");
    check_fails((long)mmap(NULL, bytes, PROT_READ | PROT_EXEC, how, fd, 0), EPERM, what);
    check_fails(mprotect(p, bytes, PROT_READ | PROT_EXEC), EACCES, "made executable later");
    return p;
}

static void refused_to_children(int fd, size_t bytes, int how, const char *what)
{
    char *p = refused(fd, bytes, how, what);
    pid_t child = forked();
    if (child == 0)
        _exit(mprotect(p, bytes, PROT_READ | PROT_EXEC) == 0 || errno != EACCES || p[0] != 'n');
    int status;
    check(waitpid(child, &status, 0) == child && status == 0 && p[0] == 'n', "by a child, too");
}

int main(int argc, char **argv)
{
    static char bytes[32 * PAGE_BYTES];
    int fd = open(argc > 1 ? argv[1] : "f", O_CREAT | O_RDWR, 0600);
    memset(bytes, 'n', sizeof bytes);
    need(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes, "a file");
    refused_to_children(fd, sizeof bytes, MAP_PRIVATE, "text");
    refused_to_children(fd, sizeof bytes, MAP_SHARED, "a shared mapping");
    refused(fd, PAGE_BYTES, MAP_PRIVATE, "little of it, of which a child has a copy");
    return check_done();
}
