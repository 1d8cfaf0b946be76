// A handler may leave any value in rax: none of them is taken for that of a
// call which a signal interrupted, not even while another signal waits.
//
// Regression: with -512 or -514 (what a kernel uses inside for "start the call
// again") and a signal pending, rt_sigreturn itself was started again, on a
// frame that was no longer there.
#include "../common/check.h"
#include <sys/syscall.h>
#include <ucontext.h>

static long value;
static volatile int second;

static void first_handler(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = value;
    raise(SIGUSR2); // blocked until this handler returns
}

static void second_handler(int signo)
{
    (void)signo;
    second++;
}

// How often the instruction after the call ran, and what it found in rax.
static long signal_self(long *returns)
{
    long result = SYS_kill, count = 0;
    __asm__ volatile("syscall\n\tincq %1"
                     : "+a"(result), "+r"(count)
                     : "D"((long)getpid()), "S"((long)SIGUSR1)
                     : "rcx", "r11", "memory");
    *returns = count;
    return result;
}

int main(void)
{
    static const int flags[] = {0, SA_RESTART};
    struct sigaction first = {.sa_sigaction = first_handler, .sa_flags = SA_SIGINFO};
    struct sigaction other = {.sa_handler = second_handler};
    sigaddset(&first.sa_mask, SIGUSR2);
    need(sigaction(SIGUSR1, &first, NULL) == 0, "sigaction");
    for (int restart = 0; restart < 2; restart++) {
        other.sa_flags = flags[restart];
        need(sigaction(SIGUSR2, &other, NULL) == 0, "sigaction");
        for (value = -517; value <= -511; value++) {
            long returns, got;
            second = 0;
            got = signal_self(&returns);
            check(got == value && returns == 1 && second == 1, "%ld arrives, SA_RESTART %d", value, restart);
        }
    }
    return check_done();
}
