/* The four kernels of the STREAM benchmark (J. McCalpin, "Memory Bandwidth and
 * Machine Balance in Current High Performance Computers", 1995): copy, scale,
 * add, triad, with his counting of bytes; the best of several passes.
 *
 *   stream [ELEMENTS] [PASSES] [OFFSET]
 *
 * OFFSET elements lie between the arrays. Results are checked.
 */
#include <math.h>
#include <sys/mman.h>

#include "bench.h"

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

static void run(int kernel, double *a, double *b, double *c, size_t n)
{
	const double s = 3.0;
	switch (kernel) {
	case COPY:
		for (size_t i = 0; i < n; i++)
			c[i] = a[i];
		break;
	case SCALE:
		for (size_t i = 0; i < n; i++)
			b[i] = s * c[i];
		break;
	case ADD:
		for (size_t i = 0; i < n; i++)
			c[i] = a[i] + b[i];
		break;
	case TRIAD:
		for (size_t i = 0; i < n; i++)
			a[i] = b[i] + s * c[i];
		break;
	}
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "copy_MB_s", "scale_MB_s", "add_MB_s", "triad_MB_s" };
	static const int arrays[] = { 2, 2, 3, 3 };
	size_t n = number(argc, argv, 1, 2000000);
	uint64_t passes = number(argc, argv, 2, 10);
	size_t stride = n + number(argc, argv, 3, 0);
	double best[KERNELS] = { INFINITY, INFINITY, INFINITY, INFINITY };
	double *a = mmap(NULL, 3 * stride * sizeof *a, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(a != MAP_FAILED, "mmap");
	double *b = a + stride, *c = b + stride;
	for (size_t i = 0; i < n; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (uint64_t pass = 0; pass < passes; pass++) {
		for (int kernel = 0; kernel < KERNELS; kernel++) {
			double start = seconds();
			run(kernel, a, b, c, n);
			best[kernel] = fmin(best[kernel], seconds() - start);
		}
	}

	double x = 1, y = 2, z = 0, wrong = 0;
	for (uint64_t pass = 0; pass < passes; pass++) {
		z = x;
		y = 3 * z;
		z = x + y;
		x = y + 3 * z;
	}
	for (size_t i = 0; i < n; i++)
		wrong += a[i] != x || b[i] != y || c[i] != z;
	for (int kernel = 0; kernel < KERNELS; kernel++)
		report(names[kernel], arrays[kernel] * 8e-6 * (double)n / best[kernel]);
	report("wrong_elements", wrong);
	return wrong != 0;
}
