// Files get their times from the clock that programs read: a file written
// between two readings has a time between them (to a tick of the kernel's).
// Where the machine is busy a tick may be late, and a time older; it is never
// newer.
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

static int growing = 1;

// Whether so many times were right, of more if need be.
static int agree(int fd, int by_writing)
{
    enum { RIGHT = 20, MOST = 2000 };
    const int64_t tick_ns = 20000000; // file systems use the coarse clock
    static int64_t last;
    struct stat st;
    int right = 0, newer = 0;
    for (int i = 0; i < MOST && right < RIGHT; i++) {
        int64_t before = now();
        need(by_writing ? write(fd, "x", 1) == 1 : futimens(fd, NULL) == 0, "a new time");
        need(fstat(fd, &st) == 0, "fstat");
        int64_t after = now(), set = ns(st.st_mtim);
        right += set >= before - tick_ns;
        newer += set > after;
        growing &= set >= last;
        last = set;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return right == RIGHT && newer == 0;
}

int main(void)
{
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0, "open");
    check(agree(fd, 1), "modification times lie between two readings of REALTIME");
    check(agree(fd, 0), "so do those by futimens(NULL)");
    check(growing, "and never run backwards");
    return check_done();
}
