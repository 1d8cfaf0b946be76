// Opened by dlopen: an own copy of everything each time it is opened anew.
#include "../library.h"

LIFE("plugin")

static int calls;
static __thread int own = 5;
int plugin_calls(void) { return ++calls; }
int plugin_thread(void) { return own++ + inner_thread; }
