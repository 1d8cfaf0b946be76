// Depends on inner: initialised after it, ended before it.
#include "../library.h"

LIFE("outer")

int outer_sum(void) { return inner_answer() + inner_table[0]() + inner_chosen(); }
int *outer_thread(void) { return &inner_thread; }
