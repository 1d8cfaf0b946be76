// Walks below /proc by paths spelled at random: `paths SEED TRIES`. Of other processes nothing may open that Linux gives to
// those who may trace them, of the own one not what shows or changes the proxy's memory, nor its descriptors and threads.
// That what may open does so by every spelling shows that the spellings are right. docs/trust.md has the promise.
#define _GNU_SOURCE
#include "random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 256, LENGTH = 512, O_PATH_ONLY = 010000000 };

static uint64_t state, opened, refused, read_bytes;
static int own, others[MOST], other_count, proc_fd;
static char shelf[64]; // a directory of this rank's, for links

static uint64_t next(uint64_t below) { return draw(&state) % below; }

static void fail(const char *what, const char *path)
{
    const char *error = strerror(errno);
    char target[LENGTH] = "";
    readlink(path, target, sizeof target - 1);
    printf("FAIL %s: %s -> %s (%s)\n", what, path, target, error);
    exit(1);
}

static void find_others(void)
{
    DIR *all = opendir("/proc");
    other_count = 0;
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        int number = atoi(entry->d_name);
        if (number > 0 && number != own && other_count < MOST)
            others[other_count++] = number;
    }
    if (all == NULL || other_count == 0)
        fail("no other process is there", "/proc");
    closedir(all);
}

// What only who may trace a process may see of it, with what lies below.
static const char *const secret[] = {"mem", "environ", "fd/0", "fd/1", "fd/3", "fd/4", "fd/5", "fd/7", "fd/100", "fdinfo/3", "cwd", "cwd/.", "root", "ro" "ot/dev/null",
                                     "exe", "maps", "smaps", "auxv", "pagemap", "syscall", "stack", "io", "map_files/.", "fd/.", "ns/.", "fd/../mem"};
// What is closed of the own one.
static const char *const closed[] = {"mem", "pagemap", "map_files/.", "fd/../mem"};
static const char *const public[] = {"status", "stat", "cmdline", "comm"};
static const char *const open_own[] = {"status", "stat", "maps", "environ", "cmdline", "fd/0", "cwd/.", "ro" "ot/dev/null", "exe", "fd/../stat"};

// Ways to say where a process's directory is; %d is the process.
static const char *const roads[] = {
    "/proc/%d/", "//proc//%d//", "/proc/./%d/./", "/proc/self/../%d/", "/proc/thread-self/../../../%d/", "/dev/../proc/%d/",
    "/proc/self/ro" "ot/proc/%d/", "/proc/self/task/../../%d/", "/proc/%d/task/%d/", "/proc/%d/task/../", "/proc/%d/task/%d/../../",
    "/proc/sys/../%d/", "/proc/self/ro" "ot/./proc/%d/", "proc/%d/", "../proc/%d/",
};
static const char *const own_roads[] = {"/proc/self/", "/proc/thread-self/", "/proc/self/task/../", "/proc/thread-self/../../", "/proc/self/./"};

// A spelling of `name` of process `pid`; the working directory is the root.
static void spell(char *path, int pid, const char *name)
{
    char link[LENGTH], target[LENGTH];
    const char *road = pid == own && next(2) ? PICK(own_roads) : PICK(roads);
    int length = snprintf(path, LENGTH, road, pid, pid);
    snprintf(path + length, (size_t)(LENGTH - length), "%s", name);
    if (next(3))
        return;
    // By symbolic links: to the directory or to all of it, two deep.
    snprintf(link, sizeof link, "%s/first", shelf);
    unlink(link);
    int whole = (int)next(2);
    snprintf(target, sizeof target, "%s%.*s", path[0] == '/' ? "" : "/", whole ? LENGTH - 2 : length, path);
    if (symlink(target, link) != 0)
        fail("symlink", link);
    snprintf(path, LENGTH, "%s%s%s", link, whole ? "" : "/", whole ? "" : name);
    if (next(2)) {
        snprintf(target, sizeof target, "%s/second", shelf);
        unlink(target);
        if (symlink("first", target) != 0)
            fail("symlink", target);
        snprintf(path, LENGTH, "%s%s%s", target, whole ? "" : "/", whole ? "" : name);
    }
}

static int open_by(int from, const char *path, int flags)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, 0, 0};
    return next(2) ? openat(from, path, flags) : (int)syscall(SYS_openat2, from, path, &how, sizeof how);
}

// Opens by one of many ways; -1 when it is refused.
static int open_any_way(const char *path, int flags)
{
    char parent[LENGTH];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || slash[1] == 0 || next(2))
        return open_by(AT_FDCWD, path, flags);
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    int from = open_by(AT_FDCWD, parent, O_DIRECTORY | (next(2) ? O_RDONLY : O_PATH_ONLY));
    if (from < 0)
        return -1;
    int fd = -1;
    if (next(2)) {
        fd = open_by(from, slash + 1, flags);
    } else if (fchdir(from) == 0) {
        fd = open_by(AT_FDCWD, slash + 1, flags);
        if (fchdir(proc_fd) != 0 || chdir("/") != 0)
            fail("chdir", "/");
    }
    int kept = errno;
    close(from);
    errno = kept;
    return fd;
}

static void must_be_closed(int pid, const char *name)
{
    static const int ways[] = {O_RDONLY, O_RDONLY, O_RDWR, O_WRONLY, O_RDONLY | O_DIRECTORY, O_CREAT | O_RDWR};
    char path[LENGTH], target[64];
    struct stat seen;
    spell(path, pid, name);
    int fd = open_any_way(path, PICK(ways) | O_NONBLOCK);
    if (fd >= 0)
        fail("it was opened", path);
    refused++;
    if (pid != own && readlink(path, target, sizeof target) >= 0 && strstr(path, shelf) == NULL)
        fail("it was read as a link", path);
    if (strncmp(name, "fd/", 3) == 0 && name[3] != '.') {
        if (stat(path, &seen) == 0 || chmod(path, 0600) == 0)
            fail("what it leads to was seen", path);
        if (truncate(path, 0) == 0)
            fail("what it leads to was cut", path);
    }
}

static void must_be_open(int pid, const char *name)
{
    char path[LENGTH], text[512];
    spell(path, pid, name);
    int fd = open_any_way(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 && pid != own) {
        char there[64];
        snprintf(there, sizeof there, "/proc/%d", pid);
        if (access(there, F_OK) != 0)
            return; // it has ended
    }
    if (fd < 0)
        fail("it was not opened", path);
    ssize_t got = read(fd, text, sizeof text);
    read_bytes += got > 0 ? (uint64_t)got : 0;
    opened++;
    close(fd);
}

// Numbers that are listed but not the program's, or not there at all.
static void look_at_own_lists(void)
{
    char path[LENGTH];
    spell(path, own, next(2) ? "fd" : "fdinfo");
    DIR *listed = opendir(path);
    if (listed == NULL)
        fail("opendir", path);
    for (struct dirent *entry; (entry = readdir(listed)) != NULL;)
        if (entry->d_name[0] != '.' && fcntl(atoi(entry->d_name), F_GETFD) < 0)
            fail(entry->d_name, path);
    closedir(listed);
    snprintf(path, sizeof path, "/proc/%d/task", own);
    listed = opendir(path);
    if (listed == NULL)
        fail("opendir", path);
    for (struct dirent *entry; (entry = readdir(listed)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != own)
            fail(entry->d_name, path);
    closedir(listed);
}

// A thread of the proxy has a number, too.
static void look_for_threads(void)
{
    char path[LENGTH], text[4096];
    int number = own - 20 + (int)next(60);
    if (number <= 0 || number == own)
        return;
    spell(path, number, "status");
    int fd = open_any_way(path, O_RDONLY);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    close(fd);
    const char *group = strstr(text, "\nTgid:");
    if (group != NULL && atoi(group + 6) == own)
        fail("a thread of the proxy", path);
}

// Descriptors that the program never opened.
static void look_for_descriptors(void)
{
    char name[32];
    int fd = (int)next(3) ? 64 + (int)next(1 << (next(20))) : 16 + (int)next(60); // lower ones are used on the way
    if (fcntl(fd, F_GETFD) >= 0)
        return;
    snprintf(name, sizeof name, "%s/%d", next(4) ? "fd" : "fdinfo", fd);
    must_be_closed(own, name);
}

// Everything that is there, by its own name: nothing may hang, and reading harms nothing.
static void walk(const char *path, int depth)
{
    DIR *here = opendir(path);
    for (struct dirent *entry; here != NULL && (entry = readdir(here)) != NULL;) {
        char below[LENGTH], text[4096];
        struct stat seen;
        if (entry->d_name[0] == '.' || (size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= sizeof below || lstat(below, &seen) != 0)
            continue;
        if (S_ISDIR(seen.st_mode) && depth > 0) {
            walk(below, depth - 1);
        } else if (S_ISREG(seen.st_mode) && next(4) == 0) {
            int fd = open(below, O_RDONLY | O_NONBLOCK);
            ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
            read_bytes += got > 0 ? (uint64_t)got : 0;
            close(fd);
        }
    }
    if (here != NULL)
        closedir(here);
}

static void machine_must_be_closed(void)
{
    static const char *const names[] = {"/proc/kcore", "/dev/mem", "/dev/port", "/dev/kmem", "/proc/sysrq-trigger"};
    const char *name = PICK(names);
    int fd = open_any_way(name, PICK(((int[]){O_RDONLY, O_RDWR, O_WRONLY})));
    if (fd >= 0)
        fail("it was opened", name);
    refused++;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, tries = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    const char *rank = getenv("MARGAY_RANK");
    char here[32];
    state = (seed << 8 | (rank ? strtoull(rank, NULL, 10) : 0)) * 2 + 1;
    own = getpid();
    snprintf(here, sizeof here, "links-%d", own);
    if (mkdir(here, 0700) != 0 || getcwd(shelf, sizeof shelf / 2) == NULL)
        fail("mkdir", here);
    snprintf(shelf + strlen(shelf), 32, "/%s", here);
    proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    if (proc_fd < 0 || chdir("/") != 0)
        fail("chdir", "/");
    find_others();
    for (uint64_t i = 0; i < tries; i++) {
        int other = others[next((uint64_t)other_count)];
        switch (next(8)) {
        case 0: case 1: must_be_closed(other, PICK(secret)); break;
        case 2: must_be_closed(own, PICK(closed)); break;
        case 3: must_be_open(other, PICK(public)); break;
        case 4: must_be_open(own, PICK(open_own)); break;
        case 5: look_for_threads(); break;
        case 6: look_for_descriptors(); break;
        default: next(8) ? machine_must_be_closed() : look_at_own_lists();
        }
    }
    walk("/proc/sys", 4);
    walk("/proc/self", 3);
    for (int i = 0; i < other_count && i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d", others[i]);
        walk(path, 2);
    }
    printf("%llu paths, %llu opened, %llu refused, %llu bytes read\n", (unsigned long long)(opened + refused), (unsigned long long)opened,
           (unsigned long long)refused, (unsigned long long)read_bytes);
    return 0;
}
