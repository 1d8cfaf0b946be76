// Files get their times from the clock that programs read: a file written
// between two readings has a time between them (to a tick of the kernel's).
#include "../common/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

static int64_t ns(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }
static int64_t now(void)
{
    struct timespec t;
    need(clock_gettime(CLOCK_REALTIME, &t) == 0, "clock_gettime");
    return ns(t);
}

int main(void)
{
    const int64_t tick_ns = 20000000; // file systems use the coarse clock
    struct stat st;
    int right = 0, growing = 1;
    int64_t last = 0;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    for (int i = 0; i < 20; i++) {
        int64_t before = now();
        need(write(fd, "x", 1) == 1 && fstat(fd, &st) == 0, "write");
        int64_t after = now();
        int lies = ns(st.st_mtim) >= before - tick_ns && ns(st.st_mtim) <= after;
        if (!lies)
            printf("     time %d: %lld ns after the first reading, %lld after the second\n", i,
                   (long long)(ns(st.st_mtim) - before), (long long)(ns(st.st_mtim) - after));
        right += lies;
        growing &= ns(st.st_mtim) >= last;
        last = ns(st.st_mtim);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    check(right == 20, "20 modification times lie between two readings of REALTIME");
    check(growing, "and never run backwards");
    int64_t before = now();
    need(futimens(fd, NULL) == 0 && fstat(fd, &st) == 0, "futimens");
    check(ns(st.st_atim) >= before - tick_ns && ns(st.st_atim) <= now(), "futimens(NULL) sets the present time");
    return check_done();
}
