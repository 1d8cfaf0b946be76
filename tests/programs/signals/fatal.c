// Ends by the signal that its argument names ("SEGV" by a real fault, others by
// raise); what was written before must arrive, the status is 128 + number.
#include "../common/check.h"
#include <sys/resource.h>

static void real_fault(void) { *(volatile int *)16 = 1; }
static void real_division(void) { __asm__ volatile("xorl %%ecx, %%ecx; idivl %%ecx" ::: "eax", "ecx", "edx"); }
static void real_illegal(void) { __asm__ volatile("ud2"); }
static void real_trap(void) { __asm__ volatile("int3"); }

static const struct {
    const char *name;
    int signo;
    void (*act)(void);
} kinds[] = {
    {"SEGV", SIGSEGV, real_fault}, {"FPE", SIGFPE, real_division}, {"ILL", SIGILL, real_illegal},
    {"TRAP", SIGTRAP, real_trap},  {"ABRT", SIGABRT, abort},       {"HUP", SIGHUP, NULL},
    {"INT", SIGINT, NULL},         {"QUIT", SIGQUIT, NULL},        {"KILL", SIGKILL, NULL},
    {"TERM", SIGTERM, NULL},       {"USR1", SIGUSR1, NULL},        {"ALRM", SIGALRM, NULL},
    {"PIPE", SIGPIPE, NULL},       {"SYS", SIGSYS, NULL},          {"XCPU", SIGXCPU, NULL},
    {"RTMIN", 34, NULL},
};

static void at_exit(void) { puts("atexit must not run"); }

int main(int argc, char **argv)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    atexit(at_exit);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        printf("about to end by %s\n", kinds[i].name);
        fflush(stdout);
        printf("buffered and never seen");
        if (kinds[i].act)
            kinds[i].act();
        else
            kill(getpid(), kinds[i].signo);
        puts("still here");
        return 1;
    }
    return 2;
}
