// gettimeofday, time and clock_gettime(REALTIME) tell one time; time(2) and
// gettimeofday as system calls agree with those of the vDSO. Without the right
// to it they cannot be set.
#include "../common/check.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>

static int64_t us_of(struct timeval t) { return t.tv_sec * INT64_C(1000000) + t.tv_usec; }
static int64_t realtime_us(void)
{
    struct timespec t;
    need(clock_gettime(CLOCK_REALTIME, &t) == 0, "clock_gettime");
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

// Natively the superuser could set the host's time: it gives the right away first. On a node no rank has it, and capset sets
// only what there is.
static void give_up_the_right(void)
{
    // uapi/linux/capability.h, which musl has not: version 3, this process; its sets of capabilities 0 to 31, and of the others.
    enum { VERSION_3 = 0x20080522, CAP_SYS_TIME = 25 };
    struct {
        uint32_t version;
        int pid;
    } header = {VERSION_3, 0};
    struct {
        uint32_t effective, permitted, inheritable;
    } data[2];
    struct utsname kernel;
    need(syscall(SYS_capget, &header, data) == 0, "capget");
    data[0].effective &= ~(1u << CAP_SYS_TIME);
    data[0].permitted &= ~(1u << CAP_SYS_TIME);
    need(uname(&kernel) == 0, "uname");
    int margay = strstr(kernel.release, "margay") != NULL;
    need(syscall(SYS_capset, &header, data) == 0 || margay, "capset");
}

static void cannot_be_set(void)
{
    enum { LONG_AGO_S = 1000000000 };
    struct timespec long_ago = {LONG_AGO_S, 0};
    struct timeval then = {LONG_AGO_S, 0};
    struct timex change = {.modes = ADJ_TICK, .tick = 10000};
    give_up_the_right();
    int64_t before = realtime_us();
    check_fails(syscall(SYS_clock_settime, CLOCK_REALTIME, &long_ago), EPERM, "clock_settime of REALTIME");
    check_fails(syscall(SYS_settimeofday, &then, NULL), EPERM, "settimeofday");
    check_fails(syscall(SYS_adjtimex, &change), EPERM, "adjtimex");
    check_fails(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &change), EPERM, "clock_adjtime");
    check(realtime_us() >= before, "REALTIME goes on from where it was");
}

int main(void)
{
    struct timeval t, direct;
    int between = 0, in_range = 0, agree = 0, seconds = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t before = realtime_us();
        need(gettimeofday(&t, NULL) == 0, "gettimeofday");
        int64_t after = realtime_us();
        between += before <= us_of(t) && us_of(t) <= after;
        in_range += t.tv_usec >= 0 && t.tv_usec < 1000000;
    }
    check(between == 10000, "gettimeofday lies between two readings of REALTIME");
    check(in_range == 10000, "its microseconds are in range");
    for (int i = 0; i < 1000; i++) {
        gettimeofday(&t, NULL);
        need(syscall(SYS_gettimeofday, &direct, NULL) == 0, "gettimeofday");
        agree += us_of(direct) >= us_of(t) && us_of(direct) - us_of(t) < 5000000;
        // time() may use the coarse clock and so lag by a tick at the turn of
        // a second.
        time_t s = time(NULL), kept;
        seconds += time(&kept) >= s && kept >= s && s - (time_t)(us_of(direct) / 1000000) >= -1 &&
                   syscall(SYS_time, NULL) - s <= 5;
    }
    check(agree == 1000, "the system call gives the same");
    check(seconds == 1000, "time gives its seconds");
    struct timezone zone = {1, 1};
    check(gettimeofday(NULL, NULL) == 0, "gettimeofday of nothing");
    check(syscall(SYS_gettimeofday, &t, &zone) == 0 && zone.tz_dsttime == 0, "with a time zone");
    check_fails(syscall(SYS_gettimeofday, 8, NULL), EFAULT, "a bad pointer");
    check_fails(syscall(SYS_time, 8), EFAULT, "and for time");
    cannot_be_set();
    return check_done();
}
