/* Instructions of a system call that the kernel answers by itself: from the
 * `syscall` instruction to the one after it, both ends included once.
 *
 *   calls [ROUNDS]
 *
 * The loop without the instruction is timed too and subtracted. What differs
 * between the two outside of the loops is less than a tick per round, and is
 * rounded away.
 */
#include <sys/syscall.h>

#include "bench.h"

static uint64_t with_call(uint64_t nr, uint64_t a, void *b, uint64_t rounds)
{
	uint64_t start = tsc();
	__asm__ volatile("1: mov %[nr], %%rax\n\t"
			 "syscall\n\t"
			 "dec %[n]\n\t"
			 "jnz 1b"
			 : [n] "+r"(rounds)
			 : [nr] "r"(nr), "D"(a), "S"(b)
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
	static const struct {
		const char *name;
		uint64_t nr;
	} calls[] = {
		{ "getpid", SYS_getpid },	{ "getppid", SYS_getppid },
		{ "gettid", SYS_gettid },	{ "getuid", SYS_getuid },
		{ "clock_getres", SYS_clock_getres },
	};
	enum { CALLS = sizeof calls / sizeof calls[0] };
	uint64_t rounds = number(argc, argv, 1, 10000), ticks[CALLS];
	struct timespec resolution;

	for (int i = 0; i < CALLS; i++)
		ticks[i] = with_call(calls[i].nr, CLOCK_MONOTONIC, &resolution, rounds) -
			   without_call(calls[i].nr, rounds);
	for (int i = 0; i < CALLS; i++)
		report(calls[i].name, (double)((ticks[i] + rounds / 2) / rounds));
	return 0;
}
