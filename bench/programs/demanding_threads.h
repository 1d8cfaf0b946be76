/* The parts of demanding.c that have as many threads as there may be, or all their timers. */
#ifndef DEMANDING_THREADS_H
#define DEMANDING_THREADS_H

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { MOST = 1023 };

/* As many threads as there may be, which have run until they wait. */
static long start_many(pthread_t threads[MOST], void *(*routine)(void *))
{
	pthread_attr_t small;
	long made = 0;
	must(pthread_attr_init(&small) == 0, "pthread_attr_init");
	must(pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0, "pthread_attr_setstacksize");
	for (; made < MOST; made++)
		if (pthread_create(&threads[made], &small, routine, (void *)made) != 0)
			break;
	must(made > 100, "a hundred threads");
	for (int i = 0; i < 4; i++)
		sched_yield();
	return made;
}

static int crowd_pipe[2];

/* Every other one sleeps, the others read. */
static void *wait_in_crowd(void *number)
{
	struct timespec far = { 1000 + (long)number % 7, (long)number };
	char byte;
	if ((long)number % 2)
		nanosleep(&far, NULL);
	else
		must(read(crowd_pipe[0], &byte, 1) == 1, "read");
	return NULL;
}

/* Deadlines and calls that wait, signals that no thread takes, half of the calls answered at once, and the end of all. */
static void crowd(void)
{
	enum { SOME = 200, SIGNALS = 8 };
	static pthread_t threads[MOST];
	static char bytes[MOST];
	sigset_t all;
	must(sigfillset(&all) == 0 && pthread_sigmask(SIG_BLOCK, &all, NULL) == 0, "pthread_sigmask");
	must(pipe(crowd_pipe) == 0, "pipe");
	long made = start_many(threads, wait_in_crowd);
	for (int i = 0; i < SOME; i++) {
		struct sigevent signal = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
		struct itimerspec far = { .it_value = { 1000, i } };
		timer_t timer;
		must(timer_create(CLOCK_MONOTONIC, &signal, &timer) == 0, "timer_create");
		must(timer_settime(timer, 0, &far, NULL) == 0, "timer_settime");
	}
	for (int i = 0; i < SIGNALS; i++)
		must(kill(getpid(), SIGUSR1) == 0, "kill");
	/* What all of them are to forget. */
	must(signal(SIGUSR1, SIG_IGN) != SIG_ERR, "signal");
	must(kill(getpid(), SIGTSTP) == 0 && kill(getpid(), SIGCONT) == 0, "kill");
	size_t half = (size_t)made / 4;
	must(write(crowd_pipe[1], bytes, half) == (ssize_t)half, "write");
	for (int i = 0; i < 4; i++)
		sched_yield();
}

static const struct timespec one_instant = { .tv_sec = 1000000000 };

static void *sleep_until_it(void *unused)
{
	must(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &one_instant, NULL) == EINTR, "clock_nanosleep");
	return unused;
}

static void wake_up(int signo)
{
	(void)signo;
}

/* All sleep until the same instant, and are woken one by one before. */
static void instant(void)
{
	static pthread_t threads[MOST];
	must(signal(SIGUSR1, wake_up) != SIG_ERR, "signal");
	long made = start_many(threads, sleep_until_it);
	for (long i = 0; i < made; i++)
		must(pthread_kill(threads[i], SIGUSR1) == 0, "pthread_kill");
	for (long i = 0; i < made; i++)
		must(pthread_join(threads[i], NULL) == 0, "pthread_join");
}

static void rest(void)
{
	must(nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL) == 0, "nanosleep");
}

enum { TIMERS = 256 };
static timer_t all_timers[TIMERS];

/* As many timers as there may be, whose signals wait for a thread, are ignored, and wait no more; then the thread ends. */
static void *with_timers(void *unused)
{
	struct sigevent signo = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1 };
	signo._sigev_un._tid = gettid();
	for (int i = 0; i < TIMERS; i++) {
		struct itimerspec often = { { 0, 2000000 + i * 20000 }, { 0, 1000 } };
		must(timer_create(CLOCK_MONOTONIC, &signo, &all_timers[i]) == 0, "timer_create");
		must(timer_settime(all_timers[i], 0, &often, NULL) == 0, "timer_settime");
	}
	rest();
	must(signal(SIGRTMIN + 1, SIG_IGN) != SIG_ERR, "signal");
	rest();
	return unused;
}

/* Timers, and as many signals as may wait although they are ignored. */
static void timers(void)
{
	pthread_t thread;
	sigset_t all, before;
	int queued = 0;
	must(sigfillset(&all) == 0 && pthread_sigmask(SIG_BLOCK, &all, &before) == 0, "pthread_sigmask");
	must(pthread_create(&thread, NULL, with_timers, NULL) == 0, "pthread_create");
	must(pthread_join(thread, NULL) == 0, "pthread_join");
	for (int i = 0; i < TIMERS; i++)
		must(timer_delete(all_timers[i]) == 0, "timer_delete");
	while (sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = queued }) == 0)
		queued++;
	must(queued > 100 && errno == EAGAIN, "signals queued");
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0, "pthread_sigmask");
}

static unsigned contended_lock;

static long lock_call(unsigned *lock, int operation)
{
	return syscall(SYS_futex, lock, operation, 0, NULL);
}

/* The last thread has this one for as long as it waits. */
static unsigned others_lock;

static void *wait_for_lock(void *unused)
{
	others_lock = (unsigned)gettid();
	must(lock_call(&contended_lock, FUTEX_LOCK_PI) == 0, "FUTEX_LOCK_PI");
	must(lock_call(&contended_lock, FUTEX_UNLOCK_PI) == 0, "FUTEX_UNLOCK_PI");
	return unused;
}

/* One lock that all wait for, while others are taken and released, of which some hash as it does. */
static void contended(void)
{
	enum { OTHERS = 512 };
	static pthread_t threads[MOST];
	static unsigned others[OTHERS];
	contended_lock = (unsigned)gettid();
	long made = start_many(threads, wait_for_lock);
	must(lock_call(&others_lock, FUTEX_TRYLOCK_PI) == -1 && errno == EAGAIN, "FUTEX_TRYLOCK_PI");
	for (int i = 0; i < OTHERS; i++) {
		must(lock_call(&others[i], FUTEX_LOCK_PI) == 0, "FUTEX_LOCK_PI");
		must(lock_call(&others[i], FUTEX_UNLOCK_PI) == 0, "FUTEX_UNLOCK_PI");
	}
	must(lock_call(&contended_lock, FUTEX_UNLOCK_PI) == 0, "FUTEX_UNLOCK_PI");
	for (long i = 0; i < made; i++)
		must(pthread_join(threads[i], NULL) == 0, "pthread_join");
}

#endif
