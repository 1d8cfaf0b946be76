// Put before all others by LD_PRELOAD: its symbols are found first.
#include "../library.h"

LIFE("preload")

const char *who(void) { return "preload's"; }
