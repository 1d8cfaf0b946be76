/* A system call that Linux answers: lseek, which does next to nothing there.
 *
 *   lseek FILE [ROUNDS]
 *
 * Reported are medians of single calls: in ticks of the TSC, the two readings
 * around a call taken off, and in time by the vDSO's clock.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

/* The call and nothing else between two readings of the TSC. */
static double ticks_of_call(int fd, off_t to)
{
	long at = SYS_lseek;
	uint64_t start = tsc();
	__asm__ volatile("syscall"
			 : "+a"(at)
			 : "D"(fd), "S"(to), "d"(SEEK_SET)
			 : "rcx", "r11", "memory");
	uint64_t ticks = tsc() - start;
	must(at == to, "lseek");
	return (double)ticks;
}

/* As ticks_of_call, without the `syscall`. */
static double ticks_of_nothing(int fd, off_t to)
{
	long at = SYS_lseek;
	uint64_t start = tsc();
	__asm__ volatile("" : "+a"(at) : "D"(fd), "S"(to), "d"(SEEK_SET) : "rcx", "r11", "memory");
	return (double)(tsc() - start);
}

static double us_of_call(int fd, off_t to)
{
	double start = seconds();
	off_t at = lseek(fd, to, SEEK_SET);
	double taken = seconds() - start;
	must(at == to, "lseek");
	return 1e6 * taken;
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 2, 1000);
	double *values = calloc(rounds, sizeof *values);
	int fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);

	must(fd >= 0, "open");
	must(values != NULL, "calloc");
	for (size_t i = 0; i < rounds; i++)
		values[i] = us_of_call(fd, (off_t)(i % 512));
	double us = median(values, rounds);
	for (size_t i = 0; i < rounds; i++)
		values[i] = ticks_of_call(fd, (off_t)(i % 512));
	double ticks = median(values, rounds) - ticks_of_nothing(fd, 0);

	report("median_us", us);
	report("median_ticks", ticks);
	report("least_ticks", values[0] - ticks_of_nothing(fd, 0));
	return 0;
}
