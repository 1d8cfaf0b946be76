// Shared by programs that become themselves: `PROGRAM CASE` prepares something and becomes `PROGRAM as CASE ...`, which looks.
#ifndef MARGAY_REPLACED_H
#define MARGAY_REPLACED_H

#include "../common/parallel.h"
#include "../common/proc.h"

#include <fcntl.h>

extern char **environ;
static char self[PATH_MAX];

// Without its folder.
CHECK_HELPER char *own_name(void) { return strrchr(self, '/') + 1; }

#define BECOME(...) \
    do { \
        execv(self, (char *[]){own_name(), "as", __VA_ARGS__, NULL}); \
        need(0, "execv"); \
    } while (0)

__attribute__((format(printf, 1, 2))) CHECK_HELPER char *text(const char *format, ...)
{
    char *made = malloc(256);
    va_list args;
    va_start(args, format);
    vsnprintf(made, 256, format, args);
    va_end(args);
    return made;
}

CHECK_HELPER size_t contents(const char *path, char *into, size_t room)
{
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, into, room - 1);
    need(got >= 0, path);
    into[got] = 0;
    close(fd);
    return (size_t)got;
}

CHECK_HELPER int descriptors(void)
{
    int open = 0;
    for (int fd = 0; fd < 256; fd++)
        open += fcntl(fd, F_GETFD) != -1;
    return open;
}

CHECK_HELPER int threads_here(void) { return atoi(proc_line("/proc/self/status", "Threads:")); }

static atomic_int ready;

CHECK_HELPER void *asleep(void *arg)
{
    ready++;
    nanosleep(&(struct timespec){.tv_sec = 1000}, NULL);
    return arg;
}

// What a program does that was begun `as` one of these.
struct other {
    const char *name;
    void (*run)(int, char **);
};

CHECK_HELPER int run_replaced(int argc, char **argv, const struct other *others, size_t other_count,
                              const struct test_case *cases, size_t case_count)
{
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "readlink");
    for (size_t i = 0; argc > 2 && strcmp(argv[1], "as") == 0 && i < other_count; i++)
        if (strcmp(argv[2], others[i].name) == 0) {
            others[i].run(argc, argv);
            return check_done();
        }
    return run_cases(argc, argv, cases, case_count);
}
#define RUN_REPLACED(others, cases)                                                                                    \
    run_replaced(argc, argv, others, sizeof others / sizeof others[0], cases, sizeof cases / sizeof cases[0])

#endif
