// Signals of a descriptor whose owner is a thread (F_SETOWN_EX with F_OWNER_TID) come. Once they stayed with Linux.
#include "../common/parallel.h"

#include <fcntl.h>

struct owner {
    int kind, number;
};
enum { SET_SIG = 10, SET_OWNER = 15, OF_THREAD = 0 }; // asm-generic/fcntl.h; musl's headers hide them

static atomic_int handled, said_fd, other_tid;
static void note(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    said_fd = info->si_fd;
    handled++;
}

static int gate[2];
static void *waits(void *arg)
{
    char byte;
    other_tid = own_tid();
    ssize_t got;
    while ((got = read(gate[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    need(got == 1, "read");
    return arg;
}

static void owned(int fd, int tid, int signo)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    struct owner owner = {OF_THREAD, tid};
    handled = 0;
    need(sigaction(signo, &action, NULL) == 0, "sigaction");
    need(fcntl(fd, SET_OWNER, &owner) == 0 && fcntl(fd, SET_SIG, signo) == 0, "fcntl");
    need(fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) == 0, "O_ASYNC");
}

int main(void)
{
    int ends[2];
    need(pipe(ends) == 0 && pipe(gate) == 0, "pipe");
    pthread_t thread = start(waits, NULL);
    AWAIT(other_tid != 0);
    const int tids[] = {own_tid(), other_tid}, signals[] = {SIGUSR1, SIGUSR2};
    for (int i = 0; i < 2; i++) {
        owned(ends[0], tids[i], signals[i]);
        need(write(ends[1], "x", 1) == 1, "write");
        AWAIT(handled == 1);
        check(said_fd == ends[0], "the signal of thread %d names the descriptor", i);
    }
    need(write(gate[1], "x", 1) == 1, "write");
    joined(thread);
    return check_done();
}
