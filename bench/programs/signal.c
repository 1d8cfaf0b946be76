/* A signal that a program sends itself and has a handler for: kill, the
 * handler, the return from it, the return from kill.
 *
 *   signal [ROUNDS]
 *
 * Medians. The handler reads the TSC and returns.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

static volatile uint64_t in_handler;
static volatile size_t caught;

static void handle(int signo)
{
	in_handler = tsc();
	caught += signo == SIGUSR1;
}

/* The call and nothing else between two readings of the TSC. */
static uint64_t kill_self(pid_t self, uint64_t *before)
{
	long result = SYS_kill;
	*before = tsc();
	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"((long)self), "S"((long)SIGUSR1)
			 : "rcx", "r11", "memory");
	uint64_t after = tsc();
	must(result == 0, "kill");
	return after;
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 1, 1000);
	double *whole = calloc(rounds, sizeof *whole), *half = calloc(rounds, sizeof *half);
	struct sigaction action = { .sa_handler = handle };
	pid_t self = getpid();

	check(whole != NULL && half != NULL && rounds > 0, "usage: signal [ROUNDS]");
	must(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	for (size_t i = 0; i < rounds; i++) {
		uint64_t before, after = kill_self(self, &before);
		check(caught == i + 1, "the handler did not run once per signal");
		whole[i] = (double)(after - before);
		half[i] = (double)(in_handler - before);
	}
	report("self_ticks", median(whole, rounds));
	report("to_handler_ticks", median(half, rounds));
	return 0;
}
