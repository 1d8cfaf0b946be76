// SIGPIPE by its default: the write that finds no reader ends the program with
// 128 + 13; its handler, tried before, saw EPIPE from the same call.
#include "../common/check.h"

static volatile int calls;
static void count(int signo) { calls += signo == SIGPIPE; }

int main(void)
{
    int ends[2];
    need(pipe(ends) == 0 && close(ends[0]) == 0, "pipe");
    signal(SIGPIPE, count);
    for (int i = 0; i < 3; i++)
        check_fails(write(ends[1], "abc", 3), EPIPE, "a write without a reader");
    check(calls == 3, "the handler ran each time");
    check(write(ends[1], "", 0) == 0 && calls == 3, "not for an empty write");
    signal(SIGPIPE, SIG_DFL);
    check_done();
    fflush(stdout);
    write(ends[1], "abc", 3);
    puts("still here");
    return 1;
}
