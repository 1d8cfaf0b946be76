// Ends in the way that its first argument names with the code of the second:
// "return", "exit", "_exit", "quick_exit", "exit_group" (the plain system call);
// handlers of exit run in reverse.
#include "../common/check.h"
#include <sys/syscall.h>

static void first(void) { puts("registered first, runs last"); }
static void second(void) { puts("registered second, runs before"); }
static void quick(void)
{
    puts("at quick_exit");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int code = atoi(argv[2]);
    atexit(first);
    atexit(second);
    at_quick_exit(quick);
    printf("%s with %d\n", argv[1], code);
    if (strcmp(argv[1], "_exit") == 0) {
        fflush(stdout);
        printf("buffered and never seen");
        _exit(code);
    }
    if (strcmp(argv[1], "exit_group") == 0) {
        fflush(stdout);
        syscall(SYS_exit_group, code);
        puts("exit_group returned");
        return 1;
    }
    if (strcmp(argv[1], "exit") == 0)
        exit(code);
    if (strcmp(argv[1], "quick_exit") == 0) {
        fflush(stdout);
        quick_exit(code);
    }
    return code;
}
