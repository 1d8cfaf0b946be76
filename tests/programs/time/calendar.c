// The calendar of the C library on fixed times: gmtime, mktime, strftime and
// strptime over leap years and the ends of the range, with TZ set by the program.
#include "../common/check.h"
#include <time.h>

static void show(time_t t, const char *zone)
{
    char text[64];
    struct tm tm;
    setenv("TZ", zone, 1);
    tzset();
    localtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %a %j %Z %z", &tm);
    printf("%12lld %s dst %d\n", (long long)t, text, tm.tm_isdst);
    struct tm again = tm;
    check(mktime(&again) == t, "mktime gives it back");
}

int main(void)
{
    static const time_t times[] = {0, 951782399, 951782400, 1078012800, 1711846799, 1711846800, 1729990799,
                                   1729990800, 2147483647, 2147483648, 4107542400, -1, -2208988800, 253402300799};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        show(times[i], "UTC0");
        show(times[i], "XST-5:30");
    }
    // The hour that a clock with daylight saving shows twice is left out:
    // mktime may answer with either.
    show(1711846799, "CET-1CEST,M3.5.0,M10.5.0/3");
    show(1711846800, "CET-1CEST,M3.5.0,M10.5.0/3");
    struct tm tm = {0};
    setenv("TZ", "UTC0", 1);
    tzset();
    check(strptime("29 Feb 2024 23:59:58", "%d %b %Y %H:%M:%S", &tm) != NULL, "strptime");
    tm.tm_sec += 3;
    check(mktime(&tm) == 1709251201 && tm.tm_mon == 2 && tm.tm_mday == 1, "mktime carries into the next month");
    check(difftime(1711846800, 1711846799) == 1.0, "difftime");
    return check_done();
}
