// Programs that cannot replace this one: each time it goes on as if it had not
// called. And what replaces it by other ways than its path: execveat, scripts.
#include "../common/parallel.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#define EMPTY_PATH 0x1000
#define NO_FOLLOW 0x100

static char self[PATH_MAX];
static char **volatile nowhere = (char **)8;
static char *const argv_x[] = {"x", NULL};
static char *const envp_x[] = {NULL};

static void make(const char *path, const void *bytes, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    need(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && fchmod(fd, mode) == 0, path);
    close(fd);
}
static void make_text(const char *path, const char *text) { make(path, text, strlen(text), 0700); }

static void refused(const char *path, int want, const char *what) { check_fails(execve(path, argv_x, envp_x), want, what); }

// ---- Files -------------------------------------------------------------------

static void files(void)
{
    make_text("text", "no program, and longer than the header of one; so it is read as far as that would be, but no more\n");
    make("forbidden", "#!/bin/sh\n", 10, 0600);
    make("empty", "", 0, 0700);
    make("broken", "\177ELF\2\1\1", 7, 0700);
    mkdir("directory", 0700);
    mkfifo("fifo", 0700);
    symlink("loop", "loop");
    symlink("text", "link");
    refused("missing", ENOENT, "missing");
    refused("text", ENOEXEC, "text");
    refused("link", ENOEXEC, "a link to text");
    refused("empty", ENOEXEC, "empty");
    refused("broken", ENOEXEC, "cut short");
    refused("forbidden", EACCES, "not executable");
    refused("directory", EACCES, "a directory");
    refused("fifo", EACCES, "a FIFO");
    refused("/dev/null", EACCES, "a device");
    refused("loop", ELOOP, "a link to itself");
    refused("text/", ENOTDIR, "a file as a directory");
    refused("text/below", ENOTDIR, "below a file");
    refused("missing/below", ENOENT, "below nothing");
    refused("", ENOENT, "no path");
    static char longest[PATH_MAX + 1];
    memset(longest, 'x', PATH_MAX);
    refused(longest, ENAMETOOLONG, "too long a path");
    longest[300] = 0;
    refused(longest, ENAMETOOLONG, "too long a name");
    int writer = open("text", O_WRONLY);
    refused("text", ETXTBSY, "open for writing");
    close(writer);
    refused("text", ENOEXEC, "not any more");
    static const char *made[] = {"text", "forbidden", "empty", "broken", "fifo", "loop", "link"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unlink(made[i]);
    rmdir("directory");
}

// This program with other bytes at some place of it.
static size_t copied(char **bytes)
{
    int fd = open(self, O_RDONLY);
    struct stat stat;
    need(fd >= 0 && fstat(fd, &stat) == 0, self);
    *bytes = malloc((size_t)stat.st_size);
    need(read(fd, *bytes, (size_t)stat.st_size) == stat.st_size, "read");
    close(fd);
    return (size_t)stat.st_size;
}

static void images(void)
{
    char *bytes;
    size_t len = copied(&bytes);
    bytes[18] = (char)183; // e_machine: EM_AARCH64
    make("arm", bytes, len, 0700);
    refused("arm", ENOEXEC, "for another processor");
    bytes[18] = 62;
    char type = bytes[16];
    bytes[16] = 1; // e_type: ET_REL
    make("object", bytes, len, 0700);
    refused("object", ENOEXEC, "an object file");
    bytes[16] = type;
    unlink("arm");
    unlink("object");
    char *path = memmem(bytes, 4096, "/lib64/ld-linux", 15);
    if (path == NULL)
        return; // linked statically
    static const char *const others[] = {"/no/such", "/dev", "./text"};
    static const int errors[] = {ENOENT, EACCES, ELIBBAD};
    make_text("text", "no program, and longer than the header of one; so it is read as far as that would be, but no more\n");
    for (int i = 0; i < 3; i++) {
        strcpy(path, others[i]);
        make("dynamic", bytes, len, 0700);
        refused("dynamic", errors[i], others[i]);
    }
    unlink("text");
    unlink("dynamic");
}

// ---- Pointers and sizes --------------------------------------------------------

static void pointers(void)
{
    char *wild = (char *)(uintptr_t)0xdead0000dead000;
    char *page = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED && munmap(page + PAGE_BYTES, PAGE_BYTES) == 0, "mmap");
    char **last = (char **)(page + PAGE_BYTES) - 1;
    char *cut = page + 8;
    memset(page, 'x', PAGE_BYTES);
    refused(NULL, EFAULT, "a null path");
    refused(wild, EFAULT, "a wild path");
    refused(cut, EFAULT, "a path that does not end");
    check_fails(execve(self, (char **)wild, envp_x), EFAULT, "wild arguments");
    check_fails(execve(self, argv_x, (char **)wild), EFAULT, "a wild environment");
    check_fails(execve(self, nowhere, envp_x), EFAULT, "arguments at nothing");
    check_fails(execve(self, (char *[]){"x", wild, NULL}, envp_x), EFAULT, "a wild argument");
    check_fails(execve(self, argv_x, (char *[]){(char *)1, NULL}), EFAULT, "a variable at nothing");
    check_fails(execve(self, (char *[]){cut, NULL}, envp_x), EFAULT, "an argument that does not end");
    *last = "x";
    check_fails(execve(self, last, envp_x), EFAULT, "arguments that do not end");
    check_fails(execve(self, (char **)((char *)last - 1), envp_x), EFAULT, "arguments at an odd place");
    refused("missing", ENOENT, "wild or not, first of all it is missing");
}

static void sizes(void)
{
    size_t longest = 128 << 10, many = 1 << 20;
    char *string = malloc(longest + 1);
    memset(string, 'x', longest);
    string[longest] = 0;
    check_fails(execve(self, (char *[]){string, NULL}, envp_x), E2BIG, "too long an argument");
    check_fails(execve(self, argv_x, (char *[]){string, NULL}), E2BIG, "too long a variable");
    string[longest - 1] = 0;
    char **strings = calloc(many + 1, sizeof *strings);
    for (int i = 0; i < 100; i++)
        strings[i] = string;
    check_fails(execve(self, strings, envp_x), E2BIG, "too much in all");
    for (size_t i = 0; i < many; i++)
        strings[i] = "";
    check_fails(execve(self, argv_x, strings), E2BIG, "too many");
    strings[0] = "x", strings[1] = "fits";
    string[100000] = 0;
    for (size_t i = 2; i < 8; i++)
        strings[i] = string;
    memset(strings + 8, 0, (many - 8) * sizeof *strings);
    execve(self, strings, envp_x);
    need(0, "execve");
}
static int as_fits(int argc, char **argv)
{
    int right = argc == 8;
    for (int i = 2; i < argc; i++)
        right &= strlen(argv[i]) == 100000;
    check(right, "much, but not too much");
    return check_done();
}

// ---- execveat ------------------------------------------------------------------

static long at(int fd, const char *path, int flags)
{
    return syscall(SYS_execveat, fd, path, (char *[]){"x", "name", NULL}, envp_x, flags);
}

static void descriptors(void)
{
    make_text("script", "#!/bin/sh\n");
    symlink(self, "link");
    int here = open(".", O_RDONLY | O_DIRECTORY), file = open(self, O_RDONLY), gone = open("script", O_RDONLY | O_CLOEXEC);
    check_fails(at(here, "missing", 0), ENOENT, "missing");
    check_fails(at(-1, "script", 0), EBADF, "no directory");
    check_fails(at(999, "script", 0), EBADF, "no such directory");
    check_fails(at(file, "script", 0), ENOTDIR, "below a file");
    check_fails(at(here, "", 0), ENOENT, "no path");
    check_fails(at(here, "", EMPTY_PATH), EACCES, "the directory itself");
    check_fails(at(999, "", EMPTY_PATH), EBADF, "nothing itself");
    check_fails(at(here, "link", NO_FOLLOW), ELOOP, "a link that is not followed");
    check_fails(at(here, "script", 1), EINVAL, "unknown flags");
    check_fails(at(gone, "", EMPTY_PATH), ENOENT, "a script that will be closed");
    unlink("script");
    unlink("link");
    close(here);
    close(gone);
    need(dup2(file, 50) == 50, "dup2");
    close(file);
    at(50, "", EMPTY_PATH);
    need(0, "execveat");
}
static int as_name(void)
{
    check(strcmp((const char *)getauxval(AT_EXECFN), "/dev/fd/50") == 0, "a program in a descriptor");
    check(fcntl(50, F_GETFD) == 0, "which stays open");
    return check_done();
}

// ---- Scripts -------------------------------------------------------------------

static void nested(int depth, const char *interpreter)
{
    char name[16], line[PATH_MAX + 32];
    for (int i = depth; i > 0; i--) {
        snprintf(name, sizeof name, "s%d", i);
        snprintf(line, sizeof line, "#!%s%d\n", "./s", i + 1);
        if (i == depth)
            snprintf(line, sizeof line, "#!%s script\n", interpreter);
        make_text(name, line);
    }
}
static void forget(int depth)
{
    char name[16];
    for (int i = depth; i > 0; i--) {
        snprintf(name, sizeof name, "s%d", i);
        unlink(name);
    }
}

static void scripts(void)
{
    static const struct {
        const char *text;
        int want;
    } bad[] = {
        {"#!", EACCES}, {"#!\n", ENOEXEC}, {"#! \t\n/bin/sh", ENOEXEC}, {"#!/no/such\n", ENOENT}, {"#!/dev\n", EACCES},
        {"#!/dev/null\n", EACCES}, {"#!./bad\n", ELOOP}, {"#!./text\n", ENOEXEC}, {"#!./forbidden\n", EACCES},
        {"#!/bin/sh\r\n", ENOENT}, {"# !/bin/sh\n", ENOEXEC},
    };
    make_text("text", "text\n");
    make("forbidden", "#!/bin/sh\n", 10, 0600);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_text("bad", bad[i].text);
        check_fails(execve("./bad", argv_x, envp_x), bad[i].want, i == 0 ? "nothing" : strtok(strdup(bad[i].text), "\n\r"));
    }
    char line[400] = "#!";
    memset(line + 2, '/', 300);
    make_text("bad", line);
    refused("./bad", ENOEXEC, "an interpreter that does not end");
    nested(6, self);
    refused("./s1", ELOOP, "scripts of scripts");
    forget(6);
    unlink("bad");
    unlink("text");
    unlink("forbidden");
    nested(5, self);
    execve("./s1", (char *[]){"x", "last", NULL}, envp_x);
    need(0, "execve");
}
static int as_script(int argc, char **argv)
{
    static const char *const want[] = {"script", "./s5", "./s4", "./s3", "./s2", "./s1", "last"};
    int right = argc == 8 && strcmp(argv[0], self) == 0;
    for (int i = 0; right && i < 7; i++)
        right = strcmp(argv[i + 1], want[i]) == 0;
    forget(5);
    check(right, "a script of a script of a script");
    check(strcmp((const char *)getauxval(AT_EXECFN), "./s1") == 0, "what was started");
    return check_done();
}

// ---- It goes on ------------------------------------------------------------------

static atomic_int beats;
static void *beat(void *arg)
{
    for (;;)
        beats++;
    return arg;
}
static volatile sig_atomic_t seen;
static void note(int signo) { seen = signo; }

static void nothing_changes(void)
{
    char *heap = sbrk(0), *memory = malloc(1 << 20);
    stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10}, now;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    memset(memory, 7, 1 << 20);
    catch_signal(SIGUSR1, note, 0);
    sigaltstack(&stack, NULL);
    start(beat, NULL);
    for (int i = 0; i < 200; i++) {
        execve(i % 2 ? "/no/such" : "/dev/null", argv_x, envp_x);
        execve(self, nowhere, envp_x);
    }
    int before = beats;
    AWAIT(beats != before);
    check(1, "threads run");
    check(all_bytes(memory, 7, 1 << 20) && sbrk(0) >= (void *)heap, "memory is there");
    check(fcntl(fd, F_GETFD) == FD_CLOEXEC, "descriptors are open");
    raise(SIGUSR1);
    check(seen == SIGUSR1, "handlers run");
    check(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack.ss_sp, "there is an alternate stack");
}

// ---- Beside other calls ------------------------------------------------------

enum { TRIES = 12000, MANY = 100 };
static volatile int tries;

static void *fail(void *arg)
{
    for (; tries < TRIES; tries++)
        execve("text", argv_x, envp_x);
    return arg;
}

// The file that was looked at had the lowest free number for a moment: others got the next.
static void beside_calls(void)
{
    int skipped = 0, lowest = 3;
    make_text("text", "no program\n");
    pthread_t thread = start(fail, NULL);
    while (tries < TRIES) {
        need(syscall(SYS_close_range, lowest, ~0u, 0) == 0, "close_range");
        for (int i = 0; i < MANY; i++) {
            int fd = i % 2 ? dup(0) : fcntl(0, F_DUPFD, 0);
            skipped += fd != lowest + i;
        }
    }
    joined(thread);
    check(skipped == 0, "no number is skipped (%d were)", skipped);
}

int main(int argc, char **argv)
{
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "readlink");
    if (argc == 8 && strcmp(argv[1], "fits") == 0)
        return as_fits(argc, argv);
    if (argc == 2 && strcmp(argv[1], "name") == 0)
        return as_name();
    if (argc > 1 && strcmp(argv[1], "script") == 0)
        return as_script(argc, argv);
    static const struct test_case cases[] = {
        CASE(files), CASE(images), CASE(pointers), CASE(sizes), CASE(descriptors), CASE(scripts), CASE(nothing_changes),
        CASE(beside_calls),
    };
    return RUN_CASES(cases);
}
