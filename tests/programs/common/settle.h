// Waiting until a file is old enough to be shared: what has just been changed is not, for it might change again at what looks
// like the same time.
#ifndef MARGAY_SETTLE_H
#define MARGAY_SETTLE_H

#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

// When a file was changed, by the clock of who keeps files: a node's may be another.
CHECK_HELPER time_t changed_at(const char *name)
{
    struct stat status;
    need(stat(name, &status) == 0, "stat");
    return status.st_ctime;
}

// Looks again and again whether what is changed now is changed 3 s later than this file.
CHECK_HELPER void settle(const char *name)
{
    do {
        usleep(20 * 1000);
        close(open("now", O_CREAT | O_WRONLY, 0600));
        need(utimensat(AT_FDCWD, "now", NULL, 0) == 0, "utimensat");
    } while (changed_at("now") <= changed_at(name) + 2);
}

#endif
