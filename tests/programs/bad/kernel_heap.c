// Uses up what a kernel has for threads, timers and regions, all at once, and
// what it says then: EAGAIN and ENOMEM. Meanwhile everything else goes on, and
// when all is given back the same number can be had again.
//
//     kernel_heap [count]     count: also say how many there were
#include "../common/parallel.h"

#include <fcntl.h>

enum { THREADS = 1100, TIMERS = 300, REGIONS = 40000, STACK_BYTES = 32 << 10 };

static pthread_t threads[THREADS];
static timer_t timers[TIMERS];
static atomic_int release;
struct counts {
    int threads, timers, regions;
};

static void *wait_for_release(void *arg)
{
    while (!release)
        futex_wait(&release, 0);
    return arg;
}

static void others_work(void)
{
    char text[4] = "";
    int ends[2];
    check(pipe(ends) == 0 && write(ends[1], "abc", 4) == 4 && read(ends[0], text, 4) == 4 && strcmp(text, "abc") == 0,
          "a pipe works meanwhile");
    close(ends[0]);
    close(ends[1]);
    check(can_write(text) && !can_read((void *)16), "and a signal's handler");
}

// Every second page of an arena is given another protection: each is two regions more.
// A thread that was joined may still be on its way out of the kernel: as many threads as there were before come in any case,
// if not at once.
static struct counts use_up(int threads_before)
{
    struct counts made = {0};
    int error = 0;
    release = 0;
    while (made.threads < THREADS && (error == 0 || made.threads < threads_before)) {
        error = try_start(&threads[made.threads], STACK_BYTES, wait_for_release, NULL);
        made.threads += error == 0;
    }
    check(made.threads > 0 && (made.threads == THREADS || error == EAGAIN), "threads: all that were asked for, or EAGAIN");
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    while (made.timers < TIMERS && timer_create(CLOCK_MONOTONIC, &none, &timers[made.timers]) == 0)
        made.timers++;
    check(made.timers == TIMERS || errno == EAGAIN, "timers: all that were asked for, or EAGAIN");
    char *arena = mmap(NULL, (size_t)REGIONS * 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(arena != MAP_FAILED, "mmap");
    while (made.regions < REGIONS && mprotect(arena + (size_t)made.regions * 2 * PAGE_BYTES, PAGE_BYTES, PROT_READ) == 0)
        made.regions++;
    check(made.regions < REGIONS && errno == ENOMEM, "regions: ENOMEM");
    others_work();
    check(munmap(arena, (size_t)REGIONS * 2 * PAGE_BYTES) == 0, "the regions go");
    for (int i = 0; i < made.timers; i++)
        timer_delete(timers[i]);
    release = 1;
    futex_wake(&release, INT_MAX);
    for (int i = 0; i < made.threads; i++)
        joined(threads[i]);
    return made;
}

int main(int argc, char **argv)
{
    struct counts first = use_up(0), second = use_up(first.threads);
    check(second.threads >= first.threads && second.timers >= first.timers && second.regions >= first.regions,
          "all of it can be had again");
    if (argc > 1 && strcmp(argv[1], "count") == 0)
        printf("%d threads, %d timers, %d regions\n", first.threads, first.timers, first.regions);
    return check_done();
}
