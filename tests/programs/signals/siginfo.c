// SA_SIGINFO: number, code and sender for kill, tgkill and sigqueue; the third
// argument is the interrupted context, whose mask is the one before.
#include "../common/check.h"
#include <sys/syscall.h>
#include <ucontext.h>

static siginfo_t seen;
static sigset_t mask_in_context;
static uintptr_t stack_in_context;

static void keep(int signo, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    seen = *info;
    seen.si_errno = signo; // checked below: the argument is the number
    mask_in_context = u->uc_sigmask;
    stack_in_context = (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
}

static void expect(int signo, int code, const char *text)
{
    check(seen.si_signo == signo && seen.si_errno == signo && seen.si_code == code, "%s: signal %d, code %d", text,
          signo, code);
    check(seen.si_pid == getpid() && seen.si_uid == getuid(), "%s: sent by this process", text);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    char here;
    sigset_t mask;
    need(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGRTMIN + 3, &action, NULL) == 0, "sigaction");

    kill(getpid(), SIGUSR1);
    expect(SIGUSR1, SI_USER, "kill");
    uintptr_t distance = (uintptr_t)&here - stack_in_context;
    check(distance + (64 << 10) < (128 << 10), "the context's stack pointer is the caller's");
    memset(&seen, 0, sizeof seen);
    raise(SIGUSR1);
    expect(SIGUSR1, SI_TKILL, "raise");
    memset(&seen, 0, sizeof seen);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGRTMIN + 3);
    expect(SIGRTMIN + 3, SI_TKILL, "tgkill of a real-time signal");

    memset(&seen, 0, sizeof seen);
    union sigval value = {.sival_ptr = (void *)0x123456789abc};
    check(sigqueue(getpid(), SIGUSR1, value) == 0, "sigqueue");
    expect(SIGUSR1, SI_QUEUE, "sigqueue");
    check(seen.si_value.sival_ptr == value.sival_ptr, "its value arrives with all 64 bits");

    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGRTMAX);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    kill(getpid(), SIGUSR1);
    check(sigismember(&mask_in_context, SIGUSR2) && sigismember(&mask_in_context, SIGRTMAX) &&
              !sigismember(&mask_in_context, SIGUSR1) && !sigismember(&mask_in_context, SIGTERM),
          "the context holds the mask from before");
    return check_done();
}
