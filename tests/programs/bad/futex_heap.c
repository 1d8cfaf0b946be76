// Threads that all wait 128 times for one word, then for the next one, and so on. What a kernel keeps for who waits is that
// of who waits now: no word is without room for them, and afterwards there is room for threads as before.
//
//     futex_heap [rounds]     rounds: also say how many threads there was room for
#include "../common/parallel.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum { WAITERS = 64, ROUNDS = 200, WORDS = 128, SIZE_U32 = 2, THREADS = 400, STACK_BYTES = 32 << 10, TRIES = 200 };

static word_t words[ROUNDS];
static pthread_t threads[THREADS];
static atomic_int rounds = ROUNDS, begun, release;
static atomic_int error;

static void *wait_for_each(void *arg)
{
    for (int round = 0; round < rounds; round++) {
        struct {
            uint64_t value, address;
            uint32_t flags, reserved;
        } all[WORDS];
        for (int i = 0; i < WORDS; i++) {
            all[i].value = all[i].reserved = 0;
            all[i].address = (uintptr_t)&words[round];
            all[i].flags = SIZE_U32 | FUTEX_PRIVATE_FLAG;
        }
        begun++;
        if (syscall(SYS_futex_waitv, all, WORDS, 0, NULL, 0) == -1 && errno != EAGAIN)
            error = errno;
    }
    return arg;
}

static void *wait_for_release(void *arg)
{
    while (!release)
        futex_wait(&release, 0);
    return arg;
}

// As many as there is room for. A thread that has ended is joined before its core has left its stack in the kernel: that much becomes
// free a moment later.
static int start_threads(int most, void *(*body)(void *))
{
    int made = 0;
    for (int tries = 0; made < most && tries < TRIES;) {
        if (try_start(&threads[made], STACK_BYTES, body, NULL) == 0) {
            made++;
            tries = 0;
        } else {
            tries++;
            usleep(1000);
        }
    }
    return made;
}

static void join_threads(int count)
{
    for (int i = 0; i < count; i++)
        joined(threads[i]);
}

int main(int argc, char **argv)
{
    rounds = number_arg(argc, argv, 1, ROUNDS);
    int waiters = start_threads(WAITERS, wait_for_each);
    check(waiters > 8, "threads that wait");
    for (int round = 0; round < rounds; round++) {
        AWAIT(begun >= (round + 1) * waiters);
        words[round] = 1;
        futex_wake(&words[round], INT_MAX);
    }
    join_threads(waiters);
    check(error == 0, "there is room for who waits, whichever word it is");
    int made = start_threads(THREADS, wait_for_release);
    release = 1;
    futex_wake(&release, INT_MAX);
    join_threads(made);
    if (argc > 1)
        printf("%d threads\n", made);
    return check_done();
}
