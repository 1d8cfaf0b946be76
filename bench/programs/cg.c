/* Conjugate gradient on a 27-point stencil, as in Mantevo's HPCCG (M. Heroux):
 * 27 on the diagonal, -1 for each neighbour, and a right-hand side for which the
 * solution is 1 everywhere.
 *
 *   cg [NX] [NY] [NZ] [ITERATIONS] [RANKS]
 *
 * Each rank has NX by NY by NZ points, ranks are stacked in z (weak scaling).
 * With RANKS 2, two processes are started with the same arguments (ranks.h); they
 * exchange halos and sums over two FIFOs in the working directory, and rank 0
 * reports. Checked: no eigenvalue is below 1, so the error is no larger than the
 * residual.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cores.h"
#include "ranks.h"

/* The rows of a rank. Vectors that are multiplied have the planes of the neighbours below and above around the
 * rank's own points. */
struct problem {
	size_t nx, ny, nz, plane, rows, nonzeros;
	unsigned rank, ranks;
	/* Row i's elements are from first[i] to first[i + 1]. */
	size_t *first;
	int *column;
	double *value, *right;
	/* FIFOs to and from the other rank, and the time spent on them. */
	int to, from;
	double exchange_seconds;
};

static void *room(size_t count, size_t bytes)
{
	void *at = calloc(count, bytes);
	must(at != NULL, "memory for the problem");
	return at;
}

/* Opening waits for the other side: so one opens for writing first, the other for reading. */
static void connect_ranks(struct problem *p)
{
	static const char *const names[] = { "cg.from0", "cg.from1" };

	for (int i = 0; i < 2; i++)
		must(mkfifo(names[i], 0600) == 0 || errno == EEXIST, names[i]);
	for (unsigned i = 0; i < 2; i++) {
		int fd = open(names[i], i == p->rank ? O_WRONLY : O_RDONLY);
		must(fd >= 0, names[i]);
		*(i == p->rank ? &p->to : &p->from) = fd;
	}
	for (int i = 0; p->rank == 0 && i < 2; i++)
		must(unlink(names[i]) == 0, names[i]);
}

static void send_all(const struct problem *p, const double *values, size_t count)
{
	const char *at = (const char *)values;
	for (size_t left = count * sizeof *values; left > 0;) {
		ssize_t done = write(p->to, at, left);
		must(done > 0, "write to the other rank");
		at += done;
		left -= (size_t)done;
	}
}

static void receive_all(const struct problem *p, double *values, size_t count)
{
	char *at = (char *)values;
	for (size_t left = count * sizeof *values; left > 0;) {
		ssize_t done = read(p->from, at, left);
		must(done >= 0, "read from the other rank");
		check(done > 0, "the other rank is gone");
		at += done;
		left -= (size_t)done;
	}
}

/* Sends one thing and receives another of the same size; the ranks begin differently, for a FIFO does not hold all. */
static void exchange(struct problem *p, const double *mine, double *theirs, size_t count)
{
	if (p->ranks == 1)
		return;
	double start = seconds();
	if (p->rank == 0)
		send_all(p, mine, count);
	receive_all(p, theirs, count);
	if (p->rank == 1)
		send_all(p, mine, count);
	p->exchange_seconds += seconds() - start;
}

/* `v` is a vector with planes around it: those of the other rank are filled. */
static void exchange_halo(struct problem *p, double *v)
{
	double *below = v, *bottom = v + p->plane, *top = v + p->rows, *above = v + p->plane + p->rows;
	exchange(p, p->rank == 0 ? top : bottom, p->rank == 0 ? above : below, p->plane);
}

static double dot(struct problem *p, const double *a, const double *b)
{
	double mine = 0, theirs = 0;
	OMP(omp parallel for reduction(+ : mine))
	for (size_t i = 0; i < p->rows; i++)
		mine += a[i] * b[i];
	exchange(p, &mine, &theirs, 1);
	return p->rank == 0 ? mine + theirs : theirs + mine;
}

static void add_row(struct problem *p, size_t x, size_t y, size_t z, size_t *used)
{
	size_t row = (z * p->ny + y) * p->nx + x, all_z = p->nz * p->ranks, own_z = p->nz * p->rank + z;
	p->first[row] = *used;
	for (int dz = -1; dz <= 1; dz++)
		for (int dy = -1; dy <= 1; dy++)
			for (int dx = -1; dx <= 1; dx++) {
				if (x + dx >= p->nx || y + dy >= p->ny || own_z + dz >= all_z)
					continue;
				long offset = (dz * (long)p->ny + dy) * (long)p->nx + dx;
				p->column[*used] = (int)((long)(p->plane + row) + offset);
				p->value[(*used)++] = offset == 0 ? 27 : -1;
			}
	/* The row's sum. */
	p->right[row] = 27 - (double)(*used - p->first[row] - 1);
}

static void make_matrix(struct problem *p)
{
	p->plane = p->nx * p->ny;
	p->rows = p->plane * p->nz;
	p->first = room(p->rows + 1, sizeof *p->first);
	p->column = room(27 * p->rows, sizeof *p->column);
	p->value = room(27 * p->rows, sizeof *p->value);
	p->right = room(p->rows, sizeof *p->right);
	for (size_t z = 0; z < p->nz; z++)
		for (size_t y = 0; y < p->ny; y++)
			for (size_t x = 0; x < p->nx; x++)
				add_row(p, x, y, z, &p->nonzeros);
	p->first[p->rows] = p->nonzeros;
}

/* `v` has planes around it, `product` has not. */
static void multiply(struct problem *p, double *v, double *product)
{
	exchange_halo(p, v);
	OMP(omp parallel for)
	for (size_t row = 0; row < p->rows; row++) {
		double sum = 0;
		for (size_t i = p->first[row]; i < p->first[row + 1]; i++)
			sum += p->value[i] * v[p->column[i]];
		product[row] = sum;
	}
}

/* Solves from 0 on; returns the norm of the residual. */
static double solve(struct problem *p, double *x, uint64_t iterations)
{
	double *r = room(p->rows, sizeof *r), *product = room(p->rows, sizeof *product);
	double *around = room(p->rows + 2 * p->plane, sizeof *around), *direction = around + p->plane;

	memcpy(r, p->right, p->rows * sizeof *r);
	memcpy(direction, r, p->rows * sizeof *r);
	double rr = dot(p, r, r);
	while (iterations-- > 0 && rr > 0) {
		multiply(p, around, product);
		double alpha = rr / dot(p, direction, product);
		OMP(omp parallel for)
		for (size_t i = 0; i < p->rows; i++) {
			x[i] += alpha * direction[i];
			r[i] -= alpha * product[i];
		}
		double before = rr;
		rr = dot(p, r, r);
		OMP(omp parallel for)
		for (size_t i = 0; i < p->rows; i++)
			direction[i] = r[i] + rr / before * direction[i];
	}
	return sqrt(rr);
}

int main(int argc, char **argv)
{
	struct problem p = { .nx = number(argc, argv, 1, 32), .ny = number(argc, argv, 2, 32), .nz = number(argc, argv, 3, 32),
			     .ranks = (unsigned)number(argc, argv, 5, 1) };
	uint64_t iterations = number(argc, argv, 4, 50);

	check(p.nx > 0 && p.ny > 0 && p.nz > 0 && (p.ranks == 1 || p.ranks == 2), "usage: cg [NX] [NY] [NZ] [ITERATIONS] [1|2]");
	p.rank = p.ranks == 1 ? 0 : own_rank();
	check(p.rank < p.ranks, "not one of two ranks: bind the processes to CPUs 0 and 1");
	bind_threads();
	make_matrix(&p);
	if (p.ranks == 2)
		connect_ranks(&p);
	double *x = room(p.rows, sizeof *x), first = sqrt(dot(&p, p.right, p.right));
	p.exchange_seconds = 0;

	double start = seconds();
	uint64_t before = tsc();
	double residual = solve(&p, x, iterations);
	uint64_t ticks = tsc() - before;
	double taken = seconds() - start, exchanged = p.exchange_seconds;

	for (size_t i = 0; i < p.rows; i++)
		x[i] -= 1;
	double error = sqrt(dot(&p, x, x));
	check(error <= residual * 1.001 + 1e-9 * first, "the solution is not 1");
	check(iterations == 0 || residual < first, "the residual did not shrink");
	if (p.rank != 0)
		return 0;
	/* As HPCCG counts: per row and iteration two dot products and three sums of vectors. */
	double operations = (double)iterations * p.ranks * (2.0 * (double)p.nonzeros + 10.0 * (double)p.rows);
	report("solve_ticks", (double)ticks);
	report("solve_seconds", taken);
	report("exchange_seconds", exchanged);
	report("MFLOP_s", 1e-6 * operations / taken);
	report("iterations", (double)iterations);
	report("residual", residual);
	report("error", error);
	return 0;
}
