// A rank that becomes another program again and again while its peer reads and writes its memory through the window.
#include "windows.h"

#include <sys/uio.h>

enum { ROUNDS = 12, WORDS = 64 << 10 };
#define TAG UINT64_C(0x7461670000000000)
#define SECRET UINT64_C(0x7365637265740000)

// At the same address in each program; of rank 0 it holds what no other program has.
static volatile uint64_t words[WORDS];
static volatile uint32_t released;
static volatile pid_t own_pid;

static void fill(uint64_t with)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = with;
}

static void become_the_next(int round)
{
    char number[16];
    own_pid = getpid();
    fill(TAG | (uint64_t)round);
    if (round == ROUNDS) {
        AWAIT(released);
        return;
    }
    snprintf(number, sizeof number, "%d", round + 1);
    execv("/proc/self/exe", (char *[]){"replaced", number, NULL});
    need(0, "execv");
}

// What a look at one place gave; 0 where nothing was.
static volatile uint64_t *place;
static volatile uint64_t value;
static void look(void *arg)
{
    (void)arg;
    value = *place;
    *place = value; // to memory of that rank, or nowhere
}

// Of the other rank, whatever its program; 0 while it has none.
static pid_t seen_pid;
static void look_at_pid(void *arg)
{
    (void)arg;
    seen_pid = *OF(1, &own_pid);
}

static void look_on(void)
{
    uint64_t last = 0, strange = 0, looks = 0;
    struct iovec here = {.iov_base = (void *)&value, .iov_len = 8}, there = {.iov_len = 8};
    int64_t end = clock_ns(CLOCK_MONOTONIC) + HANG_S * NS_PER_S;
    while (last != ROUNDS && clock_ns(CLOCK_MONOTONIC) < end) {
        int at = (int)(looks++ * 7919 % WORDS);
        place = OF(1, &words[at]);
        value = 0;
        if (looks % 8 == 0 && seen_pid != 0) {
            there.iov_base = (void *)&words[at];
            ssize_t got = process_vm_readv(seen_pid, &here, 1, &there, 1, 0);
            strange += got != 8 && !(got == -1 && errno == EFAULT);
        } else {
            fault_of(look, NULL);
        }
        strange += value == SECRET;
        if ((value & ~UINT64_C(0xff)) == TAG) {
            last = value & 0xff;
            if (seen_pid == 0)
                fault_of(look_at_pid, NULL);
        }
    }
    check(last == ROUNDS, "what a program has is seen by others, whichever it is");
    check(strange == 0, "and nothing else of theirs");
    check(words[0] == SECRET && words[WORDS - 1] == SECRET, "our own is ours");
    check(smartmap_alive(1), "it is alive all the time");
}

int main(int argc, char **argv)
{
    begin_ranks();
    if (own_rank == 1)
        become_the_next(argc > 1 ? atoi(argv[1]) : 0);
    if (own_rank != 0)
        return 0;
    fill(SECRET);
    look_on();
    *OF(1, &released) = 1;
    return end_ranks();
}
