// Shared by programs that run the same in a few threads at once.
#ifndef MARGAY_IN_THREADS_H
#define MARGAY_IN_THREADS_H

#include "../common/parallel.h"

enum { THREADS = 4, ROUNDS = 500 };

// Runs the body in THREADS threads, with their numbers.
CHECK_HELPER void in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start(body, (void *)i);
    for (int i = 0; i < THREADS; i++)
        joined(threads[i]);
}

#endif
