/* The four kernels of the STREAM benchmark (J. McCalpin, "Memory Bandwidth and
 * Machine Balance in Current High Performance Computers", 1995): copy, scale,
 * add, triad, with his counting of bytes; the best of several passes.
 *
 *   stream [ELEMENTS] [PASSES] [OFFSET...]
 *
 * OFFSET elements lie between the arrays; with several OFFSETs each result is a
 * series. Results are checked.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>

#include "cores.h"

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

static void run(int kernel, double *a, double *b, double *c, size_t n)
{
	const double s = 3.0;
	switch (kernel) {
	case COPY:
		OMP(omp parallel for)
		for (size_t i = 0; i < n; i++)
			c[i] = a[i];
		break;
	case SCALE:
		OMP(omp parallel for)
		for (size_t i = 0; i < n; i++)
			b[i] = s * c[i];
		break;
	case ADD:
		OMP(omp parallel for)
		for (size_t i = 0; i < n; i++)
			c[i] = a[i] + b[i];
		break;
	case TRIAD:
		OMP(omp parallel for)
		for (size_t i = 0; i < n; i++)
			a[i] = b[i] + s * c[i];
		break;
	}
	__asm__ volatile("" ::: "memory");
}

/* Whether the arrays hold what arithmetic says after so many passes. */
static uint64_t wrong_elements(const double *a, const double *b, const double *c, size_t n, uint64_t passes)
{
	double x = 1, y = 2, z = 0;
	uint64_t wrong = 0;

	while (passes-- > 0) {
		z = x;
		y = 3 * z;
		z = x + y;
		x = y + 3 * z;
	}
	for (size_t i = 0; i < n; i++)
		wrong += a[i] != x || b[i] != y || c[i] != z;
	return wrong;
}

/* All passes with one offset; the best time of each kernel. Returns how many elements are wrong. */
static uint64_t measure(size_t n, size_t offset, uint64_t passes, double best[KERNELS])
{
	size_t stride = n + offset, bytes = 3 * stride * sizeof(double);
	double *a = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(a != MAP_FAILED, "mmap");
	double *b = a + stride, *c = b + stride;
	for (size_t i = 0; i < n; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (int kernel = 0; kernel < KERNELS; kernel++)
		best[kernel] = INFINITY;
	for (uint64_t pass = 0; pass < passes; pass++) {
		for (int kernel = 0; kernel < KERNELS; kernel++) {
			double start = seconds();
			run(kernel, a, b, c, n);
			best[kernel] = fmin(best[kernel], seconds() - start);
		}
	}
	uint64_t wrong = wrong_elements(a, b, c, n, passes);
	must(munmap(a, bytes) == 0, "munmap");
	return wrong;
}

int main(int argc, char **argv)
{
	enum { MOST = 64 };
	static const char *const names[] = { "copy_MB_s", "scale_MB_s", "add_MB_s", "triad_MB_s" };
	static const int arrays[] = { 2, 2, 3, 3 };
	size_t n = number(argc, argv, 1, 2000000), offsets = argc > 4 ? (size_t)argc - 3 : 1;
	uint64_t passes = number(argc, argv, 2, 10), wrong = 0;
	static double offset[MOST], rate[KERNELS][MOST];

	check(n > 0 && passes > 0 && offsets <= MOST, "usage: stream [ELEMENTS] [PASSES] [OFFSET...], at most 64 of them");
	bind_threads();
	for (size_t i = 0; i < offsets; i++) {
		uint64_t elements = number(argc, argv, (int)i + 3, 0);
		double best[KERNELS];
		wrong += measure(n, elements, passes, best);
		offset[i] = (double)elements;
		for (int kernel = 0; kernel < KERNELS; kernel++)
			rate[kernel][i] = arrays[kernel] * 8e-6 * (double)n / best[kernel];
	}
	if (offsets > 1)
		report_series("offset", offset, offsets);
	for (int kernel = 0; kernel < KERNELS; kernel++) {
		if (offsets > 1)
			report_series(names[kernel], rate[kernel], offsets);
		else
			report(names[kernel], rate[kernel][0]);
	}
	report("wrong_elements", (double)wrong);
	return wrong != 0;
}
