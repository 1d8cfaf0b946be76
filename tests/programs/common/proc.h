// What Linux, or Margay, shows of a process in /proc.
#ifndef MARGAY_PROC_H
#define MARGAY_PROC_H

#include "check.h"

// The rest of the line that begins with this, of a file in /proc; "" without one.
CHECK_HELPER const char *proc_line(const char *path, const char *key)
{
    static char line[4096];
    size_t length = strlen(key);
    FILE *file = fopen(path, "r");
    line[0] = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, key, length) != 0)
        line[0] = 0;
    if (file != NULL)
        fclose(file);
    line[strcspn(line, "\n")] = 0;
    return line[0] ? line + length : line;
}

// Of this process, as /proc/self/status has it.
CHECK_HELPER long status_bytes(const char *key)
{
    const char *value = proc_line("/proc/self/status", key);
    need(*value, key);
    return strtol(value, NULL, 10) << 10;
}

#endif
