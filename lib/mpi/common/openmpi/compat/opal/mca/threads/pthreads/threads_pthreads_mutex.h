/*
 * Debian's libopenmpi-dev 5.0 names this header in opal_config.h, but does not
 * package it.  Locks and conditions are pthread's there (ompi_info: "MCA
 * threads: pthreads"); the inline functions of other headers want these names, and
 * none of them is called from here.
 */
#ifndef SMARTMAP_COMPAT_THREADS_PTHREADS_MUTEX_H
#define SMARTMAP_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define opal_thread_internal_mutex_init(mutex, recursive) pthread_mutex_init(mutex, NULL)
#define opal_thread_internal_mutex_destroy pthread_mutex_destroy
#define opal_thread_internal_mutex_lock pthread_mutex_lock
#define opal_thread_internal_mutex_trylock pthread_mutex_trylock
#define opal_thread_internal_mutex_unlock pthread_mutex_unlock
#define opal_thread_internal_cond_init(condition) pthread_cond_init(condition, NULL)
#define opal_thread_internal_cond_destroy pthread_cond_destroy
#define opal_thread_internal_cond_signal pthread_cond_signal

#endif
