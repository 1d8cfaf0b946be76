// Shared by the programs of effects/. Each local call of the table has a
// group of checks here that sees what the call did, by other means than its
// return value, or that it was refused.
#ifndef MARGAY_EFFECTS_H
#define MARGAY_EFFECTS_H

#include "proc.h"

// Begins the checks of a call: tests/effects.rs looks for its name.
CHECK_HELPER void call(const char *name) { printf("%s\n", name); }

#endif
