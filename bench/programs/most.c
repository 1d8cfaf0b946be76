/* As many threads, queued signals and regions as the kernel gives a rank, while all other ranks
 * do the same: what one has takes nothing from others.
 *
 *   most    prints how many regions there were room for
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

enum { MOST_THREADS = 1100, STACK_BYTES = 16384, MOST_SIGNALS = 600, MOST_HOLES = 9000 };

static int tids[MOST_THREADS];
static volatile int begun;

static void *waits(void *arg)
{
	tids[begun] = (int)syscall(SYS_gettid);
	begun++;
	pause();
	return arg;
}

/* One after the other, until there is no room for more. */
static int threads(void)
{
	char *stacks = mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	int count = 0;

	must(stacks != MAP_FAILED, "mmap");
	must(pthread_attr_init(&attr) == 0, "pthread_attr_init");
	for (; count < MOST_THREADS; count++) {
		must(pthread_attr_setstack(&attr, stacks + (size_t)count * STACK_BYTES, STACK_BYTES) == 0,
		     "pthread_attr_setstack");
		if (pthread_create(&thread, &attr, waits, NULL) != 0)
			break;
		while (begun == count)
			sched_yield();
	}
	return count;
}

static void signals(int count)
{
	siginfo_t info = { .si_signo = SIGRTMIN, .si_code = SI_QUEUE };

	for (int i = 0; i < count; i++)
		for (int k = 0; k < MOST_SIGNALS; k++)
			if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tids[i], SIGRTMIN, &info) != 0)
				break;
}

static int regions(void)
{
	char *at = mmap(NULL, (size_t)MOST_HOLES * 2 * PAGE_BYTES, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int count = 0;

	must(at != MAP_FAILED, "mmap");
	while (count < MOST_HOLES && munmap(at + (size_t)count * 2 * PAGE_BYTES, PAGE_BYTES) == 0)
		count++;
	return count;
}

/* All keep what they have until the last one has it. */
static void together(void)
{
	const char *ranks = getenv("MARGAY_SIZE");
	int file = open("done", O_WRONLY | O_CREAT | O_APPEND, 0600);
	struct stat now = { 0 };

	must(file >= 0 && write(file, "", 1) == 1, "write");
	while (now.st_size < (ranks ? atoi(ranks) : 1))
		must(fstat(file, &now) == 0, "fstat");
}

int main(void)
{
	sigset_t all;
	int made;

	sigfillset(&all);
	must(sigprocmask(SIG_BLOCK, &all, NULL) == 0, "sigprocmask");
	made = threads();
	signals(made);
	report("regions", regions());
	fflush(stdout);
	together();
	_exit(0);
}
