/* Events of which the number is known: what counts them must find as many.
 *
 *   events faults N    page faults, each answered by a handler
 *   events ticks N     timer interrupts while the program computes
 *   events cleared N   timer interrupts, one a millisecond, during a call that has N MiB
 *                      to clear; the signals are ignored
 *   events copied N    the same of one that has N MiB to copy
 *   events untaken N   timer interrupts of a timer of 1 us that sends a signal which
 *                      is blocked, and then ignored, for N million turns of a loop each
 *   events shared N    timer interrupts while two threads of a core each compute for
 *                      N million turns of a loop
 *   events left N      the same, and then one computes alone for twice as many
 *   events blocked N   16 threads wait in read for N milliseconds: the kernel has nothing
 *                      to do, and is not entered
 *   events barriers N  barriers in the accesses of all processes (membarrier)
 *   events off         a region (../plugin/mark.h) around a getpid, and one
 *                      around mmap of a page: interrupts are off in both
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

static volatile sig_atomic_t caught;

static void open_page(int signo, siginfo_t *info, void *context)
{
	(void)signo, (void)context;
	char *page = (char *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE_BYTES);
	caught++;
	must(mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
}

static void count(int signo)
{
	(void)signo;
	caught++;
}

static void faults(size_t wanted)
{
	struct sigaction action = { .sa_sigaction = open_page, .sa_flags = SA_SIGINFO };
	size_t bytes = (wanted + 1) * PAGE_BYTES;
	volatile char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	must(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
	for (size_t i = 0; i < wanted; i++)
		at[i * PAGE_BYTES] = 1;
}

/* One after the other, so that none is merged with another. */
static void ticks(size_t wanted)
{
	struct sigaction action = { .sa_handler = count };
	struct itimerval once = { .it_value.tv_usec = 5000 };

	must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	for (size_t i = 0; i < wanted; i++) {
		must(setitimer(ITIMER_REAL, &once, NULL) == 0, "setitimer");
		while ((size_t)caught == i)
			;
	}
}

static int clear(char *at, size_t bytes)
{
	return madvise(at, bytes, MADV_DONTNEED) == 0;
}

/* The upper half of memory becomes what the lower half is. */
static int copy(char *at, size_t bytes)
{
	struct iovec from = { at, bytes / 2 }, to = { at + bytes / 2, bytes / 2 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)(bytes / 2);
}

/* What is timed is the call: dirtying is the program's own work. */
static void in_long_call(int (*call)(char *, size_t), size_t mib)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	size_t bytes = mib << 20;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	must(signal(SIGPROF, SIG_IGN) != SIG_ERR, "signal");
	memset(at, 1, bytes);
	must(setitimer(ITIMER_PROF, &often, NULL) == 0, "setitimer");
	must(call(at, bytes), "the long call");
	must(setitimer(ITIMER_PROF, &never, NULL) == 0, "setitimer");
}

static void turns(size_t millions)
{
	for (volatile size_t i = 0; i < millions * 1000000; i++)
		;
}

static void untaken(size_t millions)
{
	struct itimerval often = { { 0, 1 }, { 0, 1 } };
	sigset_t alarm;
	int taken;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	must(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0, "sigprocmask");
	must(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
	turns(millions);
	must(sigwait(&alarm, &taken) == 0, "sigwait");
	must(signal(SIGALRM, SIG_IGN) != SIG_ERR, "signal");
	must(sigprocmask(SIG_UNBLOCK, &alarm, NULL) == 0, "sigprocmask");
	turns(millions);
}

static void *compute(void *millions)
{
	turns(*(size_t *)millions);
	return NULL;
}

static void share(size_t millions)
{
	pthread_t other;

	must(pthread_create(&other, NULL, compute, &millions) == 0, "pthread_create");
	turns(millions);
	must(pthread_join(other, NULL) == 0, "pthread_join");
}

static void *read_all(void *from)
{
	char byte;

	/* Until no writer is left. */
	must(read(*(int *)from, &byte, 1) == 0, "read");
	return NULL;
}

static void block(size_t ms)
{
	enum { THREADS = 16 };
	struct itimerspec once = { .it_value = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 + 1 } };
	int ends[2], timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t expirations;
	pthread_t threads[THREADS];

	must(pipe(ends) == 0, "pipe");
	must(timer >= 0 && timerfd_settime(timer, 0, &once, NULL) == 0, "timerfd");
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, read_all, &ends[0]) == 0, "pthread_create");
	must(read(timer, &expirations, sizeof expirations) == sizeof expirations, "read");
	must(close(ends[1]) == 0, "close");
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(threads[i], NULL) == 0, "pthread_join");
}

static void barriers(size_t wanted)
{
	for (; (size_t)caught < wanted; caught++)
		must(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0, "membarrier");
}

static void off(void)
{
	long page;

	/* The region before main that bench.h began. */
	mark_end();
	mark_begin();
	syscall(SYS_getpid);
	mark_end();
	mark_begin();
	page = syscall(SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mark_end();
	must(page != -1, "mmap");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	size_t wanted = number(argc, argv, 2, 0);

	if (strcmp(what, "faults") == 0)
		faults(wanted);
	else if (strcmp(what, "ticks") == 0)
		ticks(wanted);
	else if (strcmp(what, "cleared") == 0)
		in_long_call(clear, wanted);
	else if (strcmp(what, "copied") == 0)
		in_long_call(copy, 2 * wanted);
	else if (strcmp(what, "untaken") == 0)
		untaken(wanted);
	else if (strcmp(what, "shared") == 0)
		share(wanted);
	else if (strcmp(what, "left") == 0) {
		share(wanted);
		turns(2 * wanted);
	} else if (strcmp(what, "blocked") == 0)
		block(wanted);
	else if (strcmp(what, "barriers") == 0)
		barriers(wanted);
	else if (strcmp(what, "off") == 0)
		off();
	else
		check(0, "events faults | ticks | cleared | copied | untaken | shared | left | blocked | barriers N, or events off");
	check(!strchr("ft", what[0]) || (size_t)caught == wanted, "not as many as wanted");
	report("events", (double)caught);
	return 0;
}
