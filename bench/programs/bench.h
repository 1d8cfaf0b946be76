/* What the benchmark programs share: the TSC, raw system calls, results.
 *
 * Under `-icount shift=0` the guest's TSC counts executed instructions, so the
 * same programs give exact path lengths there and ticks elsewhere. Every
 * result is one line "name value" on standard output, or "series name value
 * value ...", printed after the timed part, for output is host work.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../plugin/mark.h"

enum { PAGE_BYTES = 4096 };

/* Before a loop: its turns are shared by all threads, where a program is built with OpenMP (README.md). */
#ifdef _OPENMP
#define OMP(words) _Pragma(#words)
#else
#define OMP(words)
#endif

static inline uint64_t tsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

static inline double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What is modelled of memory costs (../plugin/README.md) goes from before main to the first result: how that is printed
 * depends on the time it took. Without the plugin both ends are a no-op. */
static __attribute__((constructor)) void begin_modelled_part(void)
{
	mark_begin();
}

static inline void report(const char *name, double value)
{
	mark_end();
	printf("%s %.15g\n", name, value);
}

static inline void report_series(const char *name, const double *values, size_t count)
{
	mark_end();
	printf("series %s", name);
	for (size_t i = 0; i < count; i++)
		printf(" %.15g", values[i]);
	printf("\n");
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, by_value);
	return values[count / 2];
}

/* Ends the program when a call that must work did not. */
static inline void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Ends the program when something is not so; `otherwise` says what is. */
static inline void check(int ok, const char *otherwise)
{
	if (!ok) {
		fprintf(stderr, "%s\n", otherwise);
		exit(1);
	}
}

/* Argument `i` as a number; without it, `otherwise`. */
static inline uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
	return i < argc ? strtoull(argv[i], NULL, 0) : otherwise;
}

#endif
