// SA_NODEFER, SA_RESETHAND and nesting: a handler interrupted by itself or by
// others, three deep, each returning to the one below.
#include "../common/check.h"

static char trace[64];
static volatile int at, depth, more;

static void mark(char c) { trace[at++] = c; }

static void again(int signo)
{
    mark((char)('0' + depth));
    depth++;
    if (more-- > 0)
        raise(signo);
    depth--;
    mark('.');
}

static void third(int signo)
{
    (void)signo;
    mark('c');
}
static void second(int signo)
{
    (void)signo;
    mark('b');
    raise(SIGTERM);
    mark('B');
}
static void first(int signo)
{
    (void)signo;
    mark('a');
    raise(SIGUSR2);
    mark('A');
}

static void expect(const char *wanted, const char *text)
{
    trace[at] = 0;
    check(strcmp(trace, wanted) == 0, "%s: %s", text, trace);
    at = depth = 0;
    more = 2;
}

static void install(int signo, void (*handler)(int), int flags, int also_blocked)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (also_blocked)
        sigaddset(&action.sa_mask, also_blocked);
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
}

static int is_default(int signo)
{
    struct sigaction now;
    return sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

int main(void)
{
    more = 2;
    install(SIGUSR1, again, SA_NODEFER, 0);
    raise(SIGUSR1);
    expect("012...", "SA_NODEFER: a handler within itself");
    install(SIGUSR1, again, 0, 0);
    raise(SIGUSR1);
    expect("0.0.0.", "without it: one after the other");
    install(SIGUSR1, again, SA_NODEFER, SIGUSR1);
    raise(SIGUSR1);
    expect("0.0.0.", "sa_mask with the signal itself outweighs SA_NODEFER");

    install(SIGUSR1, first, 0, 0);
    install(SIGUSR2, second, 0, 0);
    install(SIGTERM, third, 0, 0);
    raise(SIGUSR1);
    expect("abcBA", "three handlers, each within the other");
    install(SIGUSR1, first, 0, SIGTERM);
    raise(SIGUSR1);
    expect("abBAc", "the innermost held back until the outermost ends");

    install(SIGUSR1, third, SA_RESETHAND, 0);
    check(!is_default(SIGUSR1), "SA_RESETHAND: installed");
    raise(SIGUSR1);
    expect("c", "runs once");
    check(is_default(SIGUSR1), "and the default is back");
    // SIGURG's default is to be ignored, so a second one does nothing.
    install(SIGURG, again, SA_RESETHAND | SA_NODEFER, 0);
    raise(SIGURG);
    expect("0.", "within its handler the default holds already");
    return check_done();
}
