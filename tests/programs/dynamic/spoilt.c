// dlopen of what is no library: refused with the loader's words. Made from
// libplugin.so, which lies beside the program.
#include "../common/check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

static char bytes[1 << 20];
static size_t bytes_len;

static void original(void)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 64);
    need(len > 0, "readlink");
    path[len] = 0;
    strcpy(strrchr(path, '/'), "/lib/libplugin.so");
    int fd = open(path, O_RDONLY);
    need(fd >= 0, path);
    bytes_len = read_full(fd, bytes, sizeof bytes);
    close(fd);
}

// Under a name of its own, and kept: loaders tell files apart by inode.
static void spoilt(const char *what, size_t len, size_t at, char byte)
{
    static int number;
    char name[32], old = bytes[at];
    sprintf(name, "./spoilt%d.so", number++);
    bytes[at] = byte;
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    need(fd >= 0 && write_all(fd, bytes, len), "write");
    close(fd);
    bytes[at] = old;
    void *library = dlopen(name, RTLD_NOW);
    printf("%s: %s\n", what, library ? "opened" : dlerror());
    fflush(stdout);
    if (library)
        dlclose(library);
}

int main(void)
{
    original();
    spoilt("whole", bytes_len, 0, bytes[0]);
    spoilt("empty", 0, 0, 0);
    spoilt("four bytes", 4, 0, bytes[0]);
    spoilt("only a header", 64, 0, bytes[0]);
    spoilt("not ELF", bytes_len, 0, 'x');
    spoilt("32-bit", bytes_len, 4, 1);
    spoilt("big-endian", bytes_len, 5, 2);
    spoilt("for ARM", bytes_len, 18, (char)183);
    spoilt("an object file", bytes_len, 16, 1);
    need(mkdir("directory.so", 0700) == 0, "mkdir");
    printf("a directory: %s\n", dlopen("./directory.so", RTLD_NOW) ? "opened" : dlerror());
    rmdir("directory.so");
    return check_done();
}
