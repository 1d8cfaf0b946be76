// A signal whose default action ends the process: that is decided when it is
// sent (Linux: complete_signal). `fatal_signals CASE`: the status is the table's.
#include "../common/targets.h"

static pthread_t main_thread;
static pid_t main_tid;
static atomic_int ready;

static void fail(const char *why)
{
    printf("%s\n", why);
    fflush(stdout);
    _exit(1);
}

// Who sends it, to the process or to its main thread, blocks it; the main thread does not.
static void *end_all(void *only_main)
{
    sigset_t set = only(SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    AWAIT(ready);
    if (only_main)
        signal_thread(main_tid, SIGTERM);
    else
        kill(getpid(), SIGTERM);
    fail("the call that ends the process has returned");
    return NULL;
}
static void be_ended(void *only_main, const char *how)
{
    main_tid = own_tid();
    start(end_all, only_main);
    check(1, "%s", how);
    ready = 1;
    AWAIT(0);
}
static void sender_blocks(void) { be_ended(NULL, "a thread that blocks it sends it"); }
static void for_main(void) { be_ended(&main_tid, "a thread that blocks it sends it to the main thread"); }

// Others look for it all the time, which block it.
static void *look(void *arg)
{
    sigset_t set = only(SIGTERM);
    struct timespec zero = {0};
    ready++;
    for (;;)
        if (sigtimedwait(&set, NULL, &zero) == SIGTERM)
            fail("it was taken");
    return arg;
}
static void beside_looks(void)
{
    sigset_t set = only(SIGTERM), old;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 3; i++)
        start(look, NULL);
    AWAIT(ready == 3);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    check(1, "three threads look for it, and the main thread sends it");
    kill(getpid(), SIGTERM);
    fail("the call that ends the process has returned");
}

// The main thread waits for it: it comes before the one that sends it, which does not block it.
static char state_of_main(void)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)main_tid);
    FILE *file = fopen(path, "r");
    need(file && fgets(text, sizeof text, file), "stat");
    fclose(file);
    const char *name_end = strrchr(text, ')');
    return name_end ? name_end[2] : '?';
}
static long long time_of_main(void)
{
    clockid_t clock;
    struct timespec used;
    need(pthread_getcpuclockid(main_thread, &clock) == 0 && clock_gettime(clock, &used) == 0, "its processor time");
    return used.tv_sec * 1000000000LL + used.tv_nsec;
}
// Margay's says that it sleeps of each thread that Linux does nothing for; but while that runs, or has had a turn, its time goes on.
static void await_main(void)
{
    long long before;
    AWAIT(ready);
    do {
        before = time_of_main();
        sched_yield();
    } while (state_of_main() != 'S' || time_of_main() != before);
}
static void *send_to_waiting(void *arg)
{
    (void)arg;
    sigset_t set = none();
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    await_main();
    kill(getpid(), SIGTERM);
    return NULL;
}
static void main_waits(void)
{
    sigset_t set = only(SIGTERM), old;
    pthread_sigmask(SIG_BLOCK, &set, &old);
    main_thread = pthread_self();
    main_tid = own_tid();
    ready = 0;
    pthread_t thread = start(send_to_waiting, NULL);
    ready = 1;
    check(sigwaitinfo(&set, NULL) == SIGTERM, "the main thread takes what it waits for, and the process lives");
    joined(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// And it runs the handler of what a thread sends to the process: again and again, for the first may come before it sleeps.
static void *send_caught(void *arg)
{
    (void)arg;
    while (ready) {
        kill(getpid(), SIGUSR1);
        sched_yield();
    }
    return NULL;
}
static void main_is_woken(void)
{
    struct timespec long_time = {.tv_sec = 1000};
    catch_signal(SIGUSR1, note, 0);
    ready = 1;
    main_hits = 0;
    pthread_t thread = start(send_caught, NULL);
    check_fails(nanosleep(&long_time, NULL), EINTR, "the main thread is woken by what another sends to the process");
    ready = 0;
    joined(thread);
    check(main_hits > 0, "and runs the handler");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(sender_blocks), CASE(for_main), CASE(beside_looks), CASE(main_waits), CASE(main_is_woken),
    };
    return RUN_CASES(cases);
}
