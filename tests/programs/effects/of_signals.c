// What the local calls about signals, time and waiting do.
//
// Regression: timers on processor time were refused, so that gprof's profiles
// were empty; FUTEX_CMP_REQUEUE of -1 waiters succeeded, priority-inheritance
// locks and FUTEX_WAKE_OP were not known.
#include "../common/effects.h"
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

static volatile sig_atomic_t caught, last_value;

static void handler(int signo, siginfo_t *info, void *context)
{
    (void)context;
    caught = signo;
    last_value = info->si_value.sival_int;
}

static int is_pending(int signo)
{
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, signo);
}

static long now_ns(clockid_t clock)
{
    struct timespec now;
    need(clock_gettime(clock, &now) == 0, "clock_gettime");
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void dispositions(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set, none;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    call("rt_sigaction");
    for (int signo = 1; signo <= SIGRTMIN; signo++)
        if (signo != SIGKILL && signo != SIGSTOP && (signo < 32 || signo == SIGRTMIN))
            need(sigaction(signo, &action, NULL) == 0, "sigaction");
    check(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_sigaction == handler, "a handler is told back");
    check_fails(sigaction(SIGKILL, &action, NULL), EINVAL, "there is none of SIGKILL");
    call("kill");
    check(kill(getpid(), SIGUSR1) == 0 && caught == SIGUSR1, "the handler runs");
    call("tkill");
    check(syscall(SYS_tkill, getpid(), SIGUSR2) == 0 && caught == SIGUSR2, "the handler runs");
    call("tgkill");
    check(syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1) == 0 && caught == SIGUSR1, "the handler runs");
    call("rt_sigqueueinfo");
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_value.sival_int = 17;
    check(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR2, &info) == 0 && caught == SIGUSR2 && last_value == 17, "with its value");
    call("rt_tgsigqueueinfo");
    info.si_value.sival_int = 18;
    check(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR1, &info) == 0 && last_value == 18, "with its value");
    call("rt_sigreturn");
    check(caught == SIGUSR1, "five handlers have returned");
    call("rt_sigprocmask");
    caught = 0;
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0 && caught == 0, "blocked");
    call("rt_sigpending");
    check(is_pending(SIGUSR1) && !is_pending(SIGUSR2), "it waits");
    call("rt_sigsuspend");
    check(sigsuspend(&none) == -1 && errno == EINTR && caught == SIGUSR1 && !is_pending(SIGUSR1), "taken while it waits");
    call("rt_sigtimedwait");
    caught = 0;
    raise(SIGUSR1);
    check(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == getpid() && caught == 0, "taken without a handler");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    call("sigaltstack");
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, told;
    check(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &told) == 0 && told.ss_sp == memory, "told back");
}

// Timers of processor time, every 10 ms.
static void cpu_timer(int which, int signo, clockid_t clock)
{
    struct itimerval timer = {{0, 10000}, {0, 10000}}, stop = {0};
    struct timespec nap = {0, 300000000};
    int count = 0;
    long from = now_ns(clock);
    need(setitimer(which, &timer, NULL) == 0, "setitimer");
    while (count < 10) {
        caught = 0;
        while (!caught)
            if (now_ns(clock) - from > 10000000000l)
                break;
        count += caught == signo;
        if (!caught)
            break;
    }
    // A kernel that counts in ticks takes time that its host stole for the program's.
    check(count == 10 && now_ns(clock) - from >= 20000000, "10 signals, not too early");
    timer.it_value.tv_sec = 1000;
    need(setitimer(which, &timer, NULL) == 0, "setitimer");
    from = now_ns(clock);
    nanosleep(&nap, NULL);
    long used_us = (now_ns(clock) - from) / 1000 + 20000;
    check(getitimer(which, &timer) == 0 && timer.it_value.tv_sec >= 999, "what is left");
    long left_us = timer.it_value.tv_sec * 1000000l + timer.it_value.tv_usec;
    check(1000010000l - left_us <= used_us, "it stands still during a sleep");
    check(setitimer(which, &stop, NULL) == 0 && getitimer(which, &timer) == 0 && timer.it_value.tv_sec == 0, "off");
}

// Regression: a mutant whose intervals were twice too long went unnoticed.
static void interval(int which)
{
    struct itimerval timer = {{100, 0}, {0, 1000}}, stop = {0};
    caught = 0;
    need(setitimer(which, &timer, NULL) == 0, "setitimer");
    while (!caught)
        ;
    check(getitimer(which, &timer) == 0 && timer.it_value.tv_sec <= 100 && timer.it_value.tv_sec >= 79, "then an interval is left");
    setitimer(which, &stop, NULL);
}

static void timers(void)
{
    struct itimerval left;
    call("setitimer");
    interval(ITIMER_REAL);
    interval(ITIMER_VIRTUAL);
    interval(ITIMER_PROF);
    check_fails(setitimer(3, &left, NULL), EINVAL, "there is no fourth");
    call("getitimer");
    cpu_timer(ITIMER_PROF, SIGPROF, CLOCK_PROCESS_CPUTIME_ID);
    cpu_timer(ITIMER_VIRTUAL, SIGVTALRM, CLOCK_PROCESS_CPUTIME_ID);
    check_fails(getitimer(3, &left), EINVAL, "there is no fourth");
    call("alarm");
    check(alarm(1000) == 0 && getitimer(ITIMER_REAL, &left) == 0 && left.it_value.tv_sec >= 900, "a timer in seconds");
    caught = 0;
    alarm(1);
    while (!caught)
        ;
    check(caught == SIGALRM, "whose signal comes");
    call("pause");
    // An interval, so that a first signal before the wait begins does no harm.
    struct itimerval soon = {{0, 20000}, {0, 20000}}, stop = {0};
    caught = 0;
    need(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    check(pause() == -1 && errno == EINTR && caught == SIGALRM, "ends by its signal");
    setitimer(ITIMER_REAL, &stop, NULL);
}

static void posix_timers(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 21};
    struct itimerspec time = {{0, 1000000}, {0, 1000000}}, left;
    struct timespec none = {0}, nap = {0, 5000000};
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    call("timer_create");
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    check(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0, "a timer, which is off");
    call("timer_settime");
    check(timer_settime(timer, 0, &time, NULL) == 0 && sigwaitinfo(&set, &info) == SIGRTMIN, "its signal comes");
    check(info.si_code == SI_TIMER && info.si_value.sival_int == 21, "with its value");
    call("timer_gettime");
    check(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 1000000, "it goes on");
    call("timer_getoverrun");
    for (long from = now_ns(CLOCK_MONOTONIC); now_ns(CLOCK_MONOTONIC) - from < 10000000;)
        ;
    check(sigwaitinfo(&set, &info) == SIGRTMIN && timer_getoverrun(timer) == info.si_overrun && info.si_overrun >= 7, "told twice");
    call("timer_delete");
    check(timer_delete(timer) == 0, "deleted");
    sigtimedwait(&set, NULL, &none);
    nanosleep(&nap, NULL);
    check(!is_pending(SIGRTMIN), "no more signals");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void sleeps(void)
{
    struct timespec nap = {0, 2000000}, resolution;
    long from = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    call("nanosleep");
    check(nanosleep(&nap, NULL) == 0 && now_ns(CLOCK_MONOTONIC) - from >= nap.tv_nsec, "not too short");
    call("clock_nanosleep");
    from = now_ns(CLOCK_MONOTONIC);
    check(clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == 0 && now_ns(CLOCK_MONOTONIC) - from >= nap.tv_nsec, "not too short");
    call("clock_getres");
    check(syscall(SYS_clock_getres, CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_nsec > 0, "a resolution");
    call("clock_settime");
    check_fails(syscall(SYS_clock_settime, CLOCK_MONOTONIC, &nap), EINVAL, "not to be set");
    call("clock_gettime");
    struct timespec now;
    check(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0 && now.tv_sec * 1000000000l + now.tv_nsec >= from, "goes on");
    call("gettimeofday");
    struct timeval day, later;
    check(syscall(SYS_gettimeofday, &day, NULL) == 0 && gettimeofday(&later, NULL) == 0 && !timercmp(&later, &day, <), "goes on");
    call("time");
    check(syscall(SYS_time, NULL) >= day.tv_sec - 1, "goes on"); // Linux tells the time of its last tick
    while (now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 30000000)
        ;
    call("times");
    struct tms used;
    check(times(&used) > 0 && used.tms_utime + used.tms_stime > 0, "processor time");
    call("getrusage");
    struct rusage usage;
    check(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec +
          usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec > 0 && usage.ru_maxrss > 0, "processor time and memory");
}

static uint32_t word, other;
static long futex(int op, uint32_t value, long value2, uint32_t value3)
{
    return syscall(SYS_futex, &word, op | FUTEX_PRIVATE_FLAG, value, value2, &other, value3);
}

static void futexes(void)
{
    call("futex");
    struct timespec nap = {0, 1000000};
    check_fails(futex(FUTEX_WAIT, 1, 0, 0), EAGAIN, "another value is there");
    check_fails(futex(FUTEX_WAIT, 0, (long)&nap, 0), ETIMEDOUT, "it waits");
    check(futex(FUTEX_WAKE, 1, 0, 0) == 0, "no thread to wake");
    check_fails(futex(FUTEX_CMP_REQUEUE, 1, -1, 0), EINVAL, "moving -1 waiters");
    check_fails(futex(FUTEX_CMP_REQUEUE, (uint32_t)-1, 1, 0), EINVAL, "waking -1 waiters");
    check_fails(futex(FUTEX_REQUEUE, 1, -1, 0), EINVAL, "moving -1 waiters unconditionally");
    check(futex(FUTEX_CMP_REQUEUE, 1, 1, 0) == 0, "moving none");
    other = 5;
    check(futex(FUTEX_WAKE_OP, 1, 1, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5)) == 0 && other == 8, "WAKE_OP adds 3");
    check(futex(FUTEX_WAKE_OP, 1, 1, FUTEX_OP((FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT), 6, FUTEX_OP_CMP_EQ, 5)) == 0 && other == 72,
          "WAKE_OP sets a bit");
    check_fails(futex(FUTEX_WAKE_OP, 1, 1, 7u << 28), ENOSYS, "WAKE_OP without a known operation");
    check(futex(FUTEX_LOCK_PI, 0, 0, 0) == 0 && word == (uint32_t)getpid(), "a lock is taken");
    check_fails(futex(FUTEX_LOCK_PI, 0, 0, 0), EDEADLK, "not twice");
    check_fails(futex(FUTEX_TRYLOCK_PI, 0, 0, 0), EDEADLK, "nor tried");
    check(futex(FUTEX_UNLOCK_PI, 0, 0, 0) == 0 && word == 0, "and released");
    check_fails(futex(FUTEX_UNLOCK_PI, 0, 0, 0), EPERM, "not twice");
    word = 0x3ffffff0;
    check_fails(futex(FUTEX_LOCK_PI, 0, 0, 0), ESRCH, "a lock of a thread that is not there");
    check_fails(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAKE, 1), EINVAL, "a misaligned word");
}

int main(void)
{
    dispositions();
    timers();
    posix_timers();
    sleeps();
    futexes();
    call("exit");
    fflush(stdout);
    syscall(SYS_exit, check_done());
}
