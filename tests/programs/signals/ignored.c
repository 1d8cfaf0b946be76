// Signals that do nothing: those ignored on purpose and those whose default is
// to be ignored; the program goes on, also when they come while blocked.
#include "../common/check.h"

int main(void)
{
    static const int by_default[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
    static const int on_purpose[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGUSR1, SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ};
    sigset_t all, none, pending;
    int alive = 0;
    for (int i = 0; i < 4; i++)
        alive += raise(by_default[i]) == 0 && kill(getpid(), by_default[i]) == 0;
    check(alive == 4, "CHLD, URG, WINCH and CONT are ignored by default");
    alive = 0;
    for (int i = 0; i < 10; i++) {
        need(signal(on_purpose[i], SIG_IGN) == SIG_DFL, "signal");
        alive += raise(on_purpose[i]) == 0 && kill(getpid(), on_purpose[i]) == 0;
    }
    check(alive == 10, "10 others are ignored on purpose");

    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int i = 0; i < 10; i++)
        raise(on_purpose[i]);
    sigpending(&pending);
    sigprocmask(SIG_SETMASK, &none, NULL);
    check(1, "raised while blocked, then unblocked: still here");

    // An ignored signal does not interrupt what goes on.
    int ends[2];
    char c;
    need(pipe(ends) == 0, "pipe");
    close(ends[0]);
    check_fails(write(ends[1], "x", 1), EPIPE, "writing to a pipe without a reader gives EPIPE");
    check(read(0, &c, 1) == 0, "stdin is at its end");
    return check_done();
}
