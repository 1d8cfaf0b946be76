/* Instructions of a system call that the kernel answers by itself: from the
 * `syscall` instruction to the one after it, both ends included once.
 *
 *   calls [ROUNDS]
 *
 * The loop without the instruction is timed too and subtracted. What differs
 * between the two outside of the loops is less than a tick per round, and is
 * rounded away.
 */
#include <signal.h>
#include <sys/syscall.h>

#include "bench.h"

struct call {
	const char *name;
	uint64_t nr, a;
	void *b, *c;
	uint64_t d;
};

static uint64_t with_call(const struct call *call, uint64_t rounds)
{
	register uint64_t d __asm__("r10") = call->d;
	uint64_t start = tsc();
	__asm__ volatile("1: mov %[nr], %%rax\n\t"
			 "syscall\n\t"
			 "dec %[n]\n\t"
			 "jnz 1b"
			 : [n] "+r"(rounds)
			 : [nr] "r"(call->nr), "D"(call->a), "S"(call->b), "d"(call->c), "r"(d)
			 : "rax", "rcx", "r11", "memory", "cc");
	return tsc() - start;
}

static uint64_t without_call(uint64_t nr, uint64_t rounds)
{
	uint64_t start = tsc();
	__asm__ volatile("1: mov %[nr], %%rax\n\t"
			 "dec %[n]\n\t"
			 "jnz 1b"
			 : [n] "+r"(rounds)
			 : [nr] "r"(nr)
			 : "rax", "memory", "cc");
	return tsc() - start;
}

int main(int argc, char **argv)
{
	struct timespec time;
	sigset_t mask;
	const struct call calls[] = {
		{ .name = "getpid", .nr = SYS_getpid },
		{ .name = "getppid", .nr = SYS_getppid },
		{ .name = "gettid", .nr = SYS_gettid },
		{ .name = "getuid", .nr = SYS_getuid },
		{ "clock_getres", SYS_clock_getres, CLOCK_MONOTONIC, &time, NULL, 0 },
		{ "clock_gettime", SYS_clock_gettime, CLOCK_MONOTONIC, &time, NULL, 0 },
		{ "rt_sigprocmask", SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8 },
	};
	enum { CALLS = sizeof calls / sizeof calls[0] };
	uint64_t rounds = number(argc, argv, 1, 10000), ticks[CALLS];

	for (int i = 0; i < CALLS; i++)
		ticks[i] = with_call(&calls[i], rounds) - without_call(calls[i].nr, rounds);
	for (int i = 0; i < CALLS; i++)
		report(calls[i].name, (double)((ticks[i] + rounds / 2) / rounds));
	return 0;
}
