// What the libraries of this folder have, and how they tell of their beginning
// and end: by write(2), because stdio may be gone at the end.
#ifndef LIBRARY_H
#define LIBRARY_H
#include <string.h>
#include <unistd.h>

static inline void say(const char *what, const char *name)
{
    char line[64] = "";
    strcat(strcat(strcat(line, what), name), "\n");
    (void)!write(1, line, strlen(line));
}

#define LIFE(name)                                                                  \
    __attribute__((constructor)) static void begin(void) { say("begin ", name); }   \
    __attribute__((destructor)) static void end(void) { say("end ", name); }

extern int inner_count;
extern __thread int inner_thread;
extern __thread char inner_zeros[5000];
extern int (*const inner_table[])(void);
const char *inner_who(void);
int inner_answer(void);
int inner_chosen(void);
int outer_sum(void);
int *outer_thread(void);
#endif
