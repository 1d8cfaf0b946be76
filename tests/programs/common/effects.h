// Shared by the programs of effects/. Each local call of the table has a
// group of checks here that sees what the call did, by other means than its
// return value, or that it was refused.
#ifndef MARGAY_EFFECTS_H
#define MARGAY_EFFECTS_H

#include "check.h"

// Begins the checks of a call: tests/effects.rs looks for its name.
CHECK_HELPER void call(const char *name) { printf("%s\n", name); }

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

#endif
