// Eight thousand small files, all of them mapped and shared at once: each shows what it has, and has what is stored.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MOST = 8000, SPARE = 2000 }; // all regions that a rank may have, nearly

static int *maps[MOST];

// As many as a node may hold open for its ranks.
static int count(void)
{
    struct rlimit limit;
    need(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    return limit.rlim_max > MOST + SPARE ? MOST : (int)limit.rlim_max / 2;
}

static const char *name(int number)
{
    static char name[16];
    snprintf(name, sizeof name, "files/%d", number);
    return name;
}

int main(void)
{
    int files = count(), good = 1;
    need(mkdir("files", 0700) == 0, "mkdir");
    for (int i = 0; i < files; i++) {
        int fd = open(name(i), O_CREAT | O_RDWR, 0600), words[2] = {i};
        need(fd >= 0 && write(fd, words, sizeof words) == sizeof words, "a file");
        maps[i] = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        need(maps[i] != MAP_FAILED && close(fd) == 0, "mmap");
    }
    for (int i = 0; i < files; i++) {
        good &= maps[i][0] == i;
        maps[i][1] = ~i;
    }
    check(good, "each shows what its file has");
    for (int i = 0; i < files; i++) {
        int words[2], fd = open(name(i), O_RDONLY);
        good &= fd >= 0 && read(fd, words, sizeof words) == sizeof words && words[0] == i && words[1] == ~i;
        close(fd);
        good &= munmap(maps[i], PAGE_BYTES) == 0 && unlink(name(i)) == 0;
    }
    check(good, "each file has what was stored");
    check(rmdir("files") == 0, "nothing is left");
    return check_done();
}
