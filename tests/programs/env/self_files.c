// What can be done to the files of /proc that speak of the process and the machine, but read them: nothing. They are a user's
// as natively, have no size, do not become writable by a way round, and opened again by /proc/self/fd they are of that moment.
//
// Regression: a text could be given other permissions and then be opened for writing, and root, opening for
// writing, was shown the proxy's own.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const struct {
    const char *path;
    mode_t mode;
} files[] = {
    {"/proc/self/auxv", 0400},  {"/proc/self/environ", 0400}, {"/proc/self/cmdline", 0444}, {"/proc/self/maps", 0444},
    {"/proc/self/smaps", 0444}, {"/proc/self/stat", 0444},    {"/proc/self/statm", 0444},   {"/proc/self/status", 0444},
    {"/proc/cpuinfo", 0444},    {"/proc/meminfo", 0444},      {"/proc/loadavg", 0444},
};

// For its user there is no way to write it. Who may open everything may open it so as well, here or there, but write nothing.
static int cannot_be_written(const char *path, int flags)
{
    int fd = open(path, flags, 0644);
    if (fd < 0)
        return errno == EACCES;
    int refused = geteuid() == 0 && write(fd, "x", 1) == -1 && (errno == EINVAL || errno == EIO || errno == EBADF);
    close(fd);
    return refused;
}

static int is_mapped(int fd, int prot)
{
    return mmap(NULL, PAGE_BYTES, prot, MAP_SHARED, fd, 0) != MAP_FAILED;
}

static void look_at(const char *path, mode_t mode)
{
    char link[64], first[4096], again[4096];
    struct stat stat;
    static const int ways[] = {O_RDWR, O_WRONLY, O_RDWR | O_TRUNC, O_RDWR | O_CREAT, O_WRONLY | O_APPEND};
    int refused = 0, refused_again = 0, count = sizeof ways / sizeof *ways;
    int fd = open(path, O_RDONLY);
    if (!check(fd >= 0, "%s opens", path))
        return;
    check(fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size == 0, "a regular file without a size");
    if (strncmp(path, "/proc/self/", 11) == 0)
        check((stat.st_mode & 07777) == mode && stat.st_uid == geteuid(), "the user's, to be read");

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    for (int i = 0; i < count; i++) {
        refused += cannot_be_written(path, ways[i]);
        refused_again += cannot_be_written(link, ways[i]);
    }
    check(refused == count, "%d ways to open it for writing lead nowhere", count);
    check(refused_again == count, "nor by its descriptor");
    check_fails(open(path, O_RDONLY | O_CREAT | O_EXCL, 0644), EEXIST, "made anew");
    check_fails(write(fd, "x", 1), EBADF, "write");
    check_fails(ftruncate(fd, 0), EINVAL, "ftruncate");
    check_fails(fallocate(fd, 0, 0, PAGE_BYTES), EBADF, "fallocate");
    check(!is_mapped(fd, PROT_READ | PROT_WRITE) && errno == EACCES, "it cannot be mapped to be written");
    if (strncmp(path, "/proc/self/", 11) == 0)
        check_fails(fchmod(fd, 0666), EPERM, "fchmod");
    fchown(fd, geteuid(), getegid());
    check(cannot_be_written(link, O_RDWR), "nor can it be opened to be written after that");

    int other = open(link, O_RDONLY);
    ssize_t len = pread(fd, first, sizeof first, 0);
    check(len > 0, "it can still be read");
    check(other >= 0 && read(other, again, sizeof again) > 0, "and by another descriptor of it");
    check(lseek(fd, 0, SEEK_CUR) == 0, "which has an offset of its own");
    close(other);
    close(fd);
}

// What is opened again speaks of now, not of when the first one was opened.
static void is_of_the_moment(void)
{
    char link[64], line[256];
    unsigned long before = 0, after = 0;
    int fd = open("/proc/self/statm", O_RDONLY);
    need(fd >= 0 && read(fd, line, sizeof line) > 0, "/proc/self/statm");
    before = strtoul(line, NULL, 10);
    enum { MORE_PAGES = 4096 };
    need(mmap(NULL, MORE_PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "mmap");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = open(link, O_RDONLY);
    check(again >= 0 && read(again, line, sizeof line) > 0, "statm opens again by its descriptor");
    check(pread(again, line, sizeof line, 0) > 0, "and is read from its beginning");
    after = strtoul(line, NULL, 10);
    check(after >= before + MORE_PAGES, "it knows what was mapped since");
    close(again);
    close(fd);
}

int main(void)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        look_at(files[i].path, files[i].mode);
    is_of_the_moment();
    return check_done();
}
