// For gprof: all of the time is spent in one of two functions.

#include <time.h>

enum { LONG_MS = 500 };

static volatile long sum;

__attribute__((noinline)) static void works(void)
{
    for (int i = 0; i < 1000000; i++)
        sum += i;
}

__attribute__((noinline)) static long used_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

int main(void)
{
    while (used_ms() < LONG_MS)
        works();
    return 0;
}
