/* A system call that Linux answers: lseek, which does next to nothing there.
 *
 *   lseek FILE [ROUNDS]
 *
 * Reported are the median, the mean and the 99th percentile of single calls: in
 * ticks of the TSC, the two readings around a call taken off, and in time by the
 * vDSO's clock.
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

/* Sorts the values. */
static void report_all(const char *unit, double *values, size_t count, double around)
{
	char name[32];
	double sum = 0, middle = median(values, count);

	for (size_t i = 0; i < count; i++)
		sum += values[i];
	snprintf(name, sizeof name, "median_%s", unit);
	report(name, middle - around);
	snprintf(name, sizeof name, "mean_%s", unit);
	report(name, sum / (double)count - around);
	snprintf(name, sizeof name, "p99_%s", unit);
	report(name, values[count * 99 / 100] - around);
	snprintf(name, sizeof name, "least_%s", unit);
	report(name, values[0] - around);
}

int main(int argc, char **argv)
{
	size_t rounds = number(argc, argv, 2, 1000);
	/* Output is host work: nothing is said before the end. */
	double *ticks = calloc(rounds, sizeof *ticks);
	double *values = calloc(rounds, sizeof *values);
	int fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);

	must(fd >= 0, "open");
	must(rounds > 0 && values != NULL && ticks != NULL, "calloc");
	for (size_t i = 0; i < rounds; i++)
		values[i] = us_of_call(fd, (off_t)(i % 512));
	for (size_t i = 0; i < rounds; i++)
		ticks[i] = ticks_of_call(fd, (off_t)(i % 512));
	double around = ticks_of_nothing(fd, 0);

	report_all("us", values, rounds, 0);
	report_all("ticks", ticks, rounds, around);
	return 0;
}
