/* A Linux that is busy with what interrupts its CPUs: threads that touch memory and give it back, so that each has the TLBs of the others
 * flushed, and processes that come and go. Goes on until it is killed.
 *
 *   busy THREADS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { BYTES = 16 * 4096, PAGE = 4096 };

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void *flush(void *unused)
{
	volatile char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	for (;;) {
		for (int i = 0; i < BYTES; i += PAGE)
			at[i] = 1;
		must(madvise((void *)at, BYTES, MADV_DONTNEED) == 0, "madvise");
	}
	return unused;
}

static void end_with_parent(void)
{
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
}

/* In a process of its own: a fork would stop the threads. */
static void fork_forever(void)
{
	for (;;) {
		pid_t child = fork();
		must(child >= 0, "fork");
		if (child == 0)
			_exit(0);
		must(waitpid(child, NULL, 0) == child, "waitpid");
	}
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pid_t child = fork();

	must(child >= 0, "fork");
	end_with_parent();
	if (child == 0)
		fork_forever();
	for (int i = 1; i < threads; i++) {
		pthread_t thread;
		must(pthread_create(&thread, NULL, flush, NULL) == 0, "pthread_create");
	}
	flush(NULL);
}
