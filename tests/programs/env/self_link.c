// /proc/self/exe: names the program, whole or cut off, and opens as its file.
#include "../common/check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    static char path[PATH_MAX];
    char part[5];
    unsigned char magic[4] = {0};
    (void)argc;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    check(n > 0 && path[0] == '/', "readlink gives an absolute path");
    const char *own = strrchr(argv[0], '/');
    const char *name = strrchr(path, '/');
    check(name && strcmp(name + 1, own ? own + 1 : argv[0]) == 0, "which ends in the program's name");
    check(readlink("/proc/self/exe", part, 5) == 5 && memcmp(part, path, 5) == 0, "cut off at 5 bytes");
    check_fails(readlink("/proc/self/exe", (char *)8, 100), EFAULT, "a bad pointer");
    int fd = open("/proc/self/exe", O_RDONLY);
    check(fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0, "it opens as an ELF file");
    struct stat link, file;
    check(stat("/proc/self/exe", &link) == 0 && stat(path, &file) == 0 && link.st_ino == file.st_ino,
          "and is the file of that path");
    check(lstat("/proc/self/exe", &link) == 0 && S_ISLNK(link.st_mode), "itself a link");
    return check_done();
}
