// Shared by the programs of threads/ about signals: four threads that wait for
// them, and what each has got.
#ifndef MARGAY_TARGETS_H
#define MARGAY_TARGETS_H

#include "parallel.h"

// One of these threads.
struct target {
    pthread_t thread;
    _Atomic pid_t tid;
    sigset_t mask;
    atomic_int end;
};
static struct target targets[4];
static atomic_int hits[4], other_hits, main_hits;

// Counts for the thread that the handler runs on.
CHECK_HELPER void note(int signo)
{
    (void)signo;
    pid_t tid = own_tid();
    for (int i = 0; i < 4; i++)
        if (tid == targets[i].tid) {
            hits[i]++;
            return;
        }
    if (tid == getpid())
        main_hits++;
    else
        other_hits++;
}

CHECK_HELPER void *serve(void *arg)
{
    struct target *target = arg;
    pthread_sigmask(SIG_SETMASK, &target->mask, NULL);
    target->tid = own_tid();
    STAY_UNTIL(target->end);
    return NULL;
}
CHECK_HELPER void targets_start(void)
{
    memset(hits, 0, sizeof hits);
    other_hits = main_hits = 0;
    for (int i = 0; i < 4; i++) {
        targets[i].tid = targets[i].end = 0;
        targets[i].thread = start(serve, &targets[i]);
    }
    for (int i = 0; i < 4; i++)
        AWAIT(targets[i].tid);
}
CHECK_HELPER void targets_end(void)
{
    for (int i = 0; i < 4; i++)
        targets[i].end = 1;
    for (int i = 0; i < 4; i++)
        joined(targets[i].thread);
}
CHECK_HELPER sigset_t only(int signo)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    return set;
}
CHECK_HELPER sigset_t none(void)
{
    sigset_t set;
    sigemptyset(&set);
    return set;
}
CHECK_HELPER void masks_are(sigset_t set)
{
    for (int i = 0; i < 4; i++)
        targets[i].mask = set;
}

// A real-time signal with a value, for one thread.
CHECK_HELPER int queue_to(pid_t tid, int signo, int value)
{
    siginfo_t info = {.si_signo = signo, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signo, &info);
}
#endif
