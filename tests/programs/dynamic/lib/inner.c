// The library that the others depend on: data of every kind that a loader has
// to put right.
#include "../library.h"

LIFE("inner")

int inner_count = 40;                      // a program without PIE has a copy of it
__thread int inner_thread = 7;             // thread-local, initialised
__thread char inner_zeros[5000];           // thread-local, zero, more than a page
static int hidden_value(void) { return inner_count + 2; }
int (*const inner_table[])(void) = {hidden_value, inner_answer}; // read-only after relocation

__attribute__((weak)) const char *who(void) { return "inner's own"; }
const char *inner_who(void) { return who(); }
int inner_answer(void) { return inner_count + inner_thread; }

#ifdef __GLIBC__
static int chosen(void) { return 1234; }
static int (*choose(void))(void) { return chosen; }
int inner_chosen(void) __attribute__((ifunc("choose")));
#else
int inner_chosen(void) { return 1234; }
#endif
