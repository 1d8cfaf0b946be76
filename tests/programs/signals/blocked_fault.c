// A fault whose signal is blocked or ignored cannot wait: it ends the program
// with that signal. Argument: "blocked", "ignored" or "in-handler".
#include "../common/check.h"

static void fault(void) { *(volatile int *)24 = 1; }

static void faulting_handler(int signo)
{
    (void)signo;
    puts("in the handler, which faults again");
    fflush(stdout);
    fault(); // SIGSEGV is blocked while its handler runs
}

int main(int argc, char **argv)
{
    sigset_t set;
    const char *kind = argc > 1 ? argv[1] : "";
    printf("a fault, SIGSEGV %s\n", kind);
    fflush(stdout);
    if (strcmp(kind, "blocked") == 0) {
        signal(SIGSEGV, faulting_handler); // is not called
        sigemptyset(&set);
        sigaddset(&set, SIGSEGV);
        sigprocmask(SIG_BLOCK, &set, NULL);
    } else if (strcmp(kind, "ignored") == 0) {
        signal(SIGSEGV, SIG_IGN);
    } else {
        signal(SIGSEGV, faulting_handler);
    }
    fault();
    puts("still here");
    return 1;
}
