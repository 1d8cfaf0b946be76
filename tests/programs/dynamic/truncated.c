// dlopen of a library whose second half is missing: the loader maps what is
// not there, and dies of SIGBUS when it touches it.
#include "../common/check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

int main(void)
{
    char path[4096];
    static char bytes[1 << 20];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 64);
    need(len > 0, "readlink");
    path[len] = 0;
    strcpy(strrchr(path, '/'), "/lib/libplugin.so");
    int fd = open(path, O_RDONLY), half = open("half.so", O_CREAT | O_WRONLY, 0700);
    size_t whole = read_full(fd, bytes, sizeof bytes);
    need(fd >= 0 && half >= 0 && write_all(half, bytes, whole / 2), "half.so");
    close(half);
    setbuf(stdout, NULL);
    puts("opening");
    printf("opened: %s\n", dlopen("./half.so", RTLD_NOW) ? "yes" : dlerror());
    return 0;
}
