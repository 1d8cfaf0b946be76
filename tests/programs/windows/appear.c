// Memory that its owner maps at the moment at which a peer reads it: the read goes through, or is SIGSEGV with the code of what is
// not mapped. No page is there without its rights, so SEGV_ACCERR is true at no moment. Argument: how many pages.
#include "windows.h"

enum { MOST_DELAY = 64 };

static int page_count;

static char *_Atomic first;
// The page that rank 0 is about to read.
static _Atomic int wanted = -1;

static sigjmp_buf back;
static unsigned long unmapped, others;

static void caught(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    unmapped += info->si_code == SEGV_MAPERR;
    others += info->si_code != SEGV_MAPERR;
    siglongjmp(back, 1);
}

// Where nothing ever was: no core has to be told.
static void map_one_by_one(void)
{
    char *at = pages(page_count, PROT_NONE);
    munmap(at, (size_t)page_count * PAGE_BYTES);
    first = at;
    meet(0);
    for (int page = 0; page < page_count; page++) {
        AWAIT(wanted == page);
        for (volatile int delay = page % MOST_DELAY * 8; delay > 0; delay--)
            ;
        char *here = at + (size_t)page * PAGE_BYTES;
        char *got = mmap(here, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        need(got == here, "mmap");
    }
}

static void read_one_by_one(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER};
    need(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    meet(0);
    volatile char *there = OF(1, *OF(1, &first));
    for (volatile int page = 0; page < page_count; page++) {
        *OF(1, &wanted) = page;
        sigsetjmp(back, 0);
        (void)there[(size_t)page * PAGE_BYTES];
    }
    check(unmapped > 0, "pages were read before they were there");
    check(others == 0, "and none was there without its rights");
    if (others != 0)
        printf("     %lu of %lu\n", others, unmapped + others);
}

int main(int argc, char **argv)
{
    need(argc == 2, "arguments");
    page_count = atoi(argv[1]);
    begin_ranks();
    if (own_rank == 1)
        map_one_by_one();
    if (own_rank == 0)
        read_one_by_one();
    meet(1);
    return end_ranks();
}
