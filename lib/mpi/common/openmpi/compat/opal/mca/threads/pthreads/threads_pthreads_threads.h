/* As threads_pthreads_mutex.h: named by opal_config.h, but not packaged. */
#ifndef SMARTMAP_COMPAT_THREADS_PTHREADS_THREADS_H
#define SMARTMAP_COMPAT_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
