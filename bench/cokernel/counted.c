/* What the plugin counts on either machine: regions (mark.h) of one call each, ROUNDS of every kind in turn, then SECONDS in
 * which the program requests nothing, one for each.
 *
 *   counted SECONDS
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../plugin/mark.h"

enum { ROUNDS = 40, PAGE = 4096, WAIT_MS = 20 };

static volatile int signals;
static char *pages;
static int pipes[2];

static void handler(int signo)
{
	signals += signo != 0;
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(99);
}

static void local(void)
{
	must(syscall(SYS_getpid) > 0, "getpid");
}

static void memory(void)
{
	void *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED && munmap(at, 16 * PAGE) == 0, "mmap and munmap");
}

static void protection(void)
{
	must(mprotect(pages, PAGE, PROT_READ) == 0 && mprotect(pages, PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
}

static void signal_to_itself(void)
{
	must(raise(SIGUSR1) == 0, "raise");
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void compute(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		;
}

/* Whoever serves calls sleeps when it begins, and the core when it ends. */
static void shipped(void)
{
	struct pollfd empty = { .fd = pipes[0], .events = POLLIN };

	compute(WAIT_MS / 1e3);
	must(poll(&empty, 1, WAIT_MS) == 0, "poll");
}

int main(int argc, char **argv)
{
	static void (*const kinds[])(void) = { local, memory, protection, signal_to_itself, shipped };
	int seconds = argc > 1 ? atoi(argv[1]) : 0;
	struct sigaction action = { .sa_handler = handler };

	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(pages != MAP_FAILED && pipe(pipes) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "set-up");
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (int i = 0; i < ROUNDS; i++) {
			mark_begin();
			kinds[kind]();
			mark_end();
		}
	}
	must(signals == ROUNDS, "signals");
	for (int i = 0; i < seconds; i++) {
		mark_begin();
		compute(1);
		mark_end();
	}
	printf("counted %d of each\n", ROUNDS);
	return 0;
}
