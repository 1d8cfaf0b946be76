/* For tests that take the place of a function of libc: whether a component calls it. */
#ifndef TEST_CALLER_H
#define TEST_CALLER_H

#include <dlfcn.h> /* with _GNU_SOURCE */
#include <string.h>

/** Whether code of the library whose path has `name` in it is at `address`, to which the function returns. */
static int is_called_by(const void *address, const char *name)
{
    Dl_info caller;
    return dladdr(address, &caller) != 0 && strstr(caller.dli_fname, name) != NULL;
}

#endif
