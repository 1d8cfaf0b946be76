/* Parallel NetCDF-4: ranks write rows of two variables, collectively and not, and read those of the next rank. */
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 300, COLUMNS = 1000 };

static void must(int error, const char *what)
{
	if (error == NC_NOERR)
		return;
	printf("netcdf: %s: %s\n", what, nc_strerror(error));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static long value(int row, int column)
{
	return (long)row * COLUMNS + column;
}

static void writes(int rank, int size)
{
	static long block[ROWS][COLUMNS];
	float turn[COLUMNS];
	int file, dimensions[2], blocks, turns;
	must(nc_create_par("ours.nc", NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &file), "create");
	must(nc_def_dim(file, "row", (size_t)size * ROWS, &dimensions[0]), "rows");
	must(nc_def_dim(file, "column", COLUMNS, &dimensions[1]), "columns");
	must(nc_def_var(file, "blocks", NC_INT64, 2, dimensions, &blocks), "blocks");
	must(nc_def_var(file, "turns", NC_FLOAT, 2, dimensions, &turns), "turns");
	must(nc_put_att_int(file, NC_GLOBAL, "ranks", NC_INT, 1, &size), "attribute");
	must(nc_enddef(file), "enddef");
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++)
			block[i][j] = value(rank * ROWS + i, j);
	must(nc_var_par_access(file, blocks, NC_COLLECTIVE), "collective");
	must(nc_put_vara_long(file, blocks, (size_t[]){ (size_t)rank * ROWS, 0 }, (size_t[]){ ROWS, COLUMNS }, block[0]), "put");
	for (int i = 0; i < ROWS; i += 10) {
		for (int j = 0; j < COLUMNS; j++)
			turn[j] = (float)(rank + i);
		must(nc_put_vara_float(file, turns, (size_t[]){ (size_t)(i * size + rank), 0 }, (size_t[]){ 1, COLUMNS }, turn), "put a turn");
	}
	must(nc_close(file), "close");
}

/* The sum of the next rank's rows. */
static long reads(int rank, int size)
{
	static long block[ROWS][COLUMNS];
	float turn[COLUMNS];
	int file, blocks, turns, ranks, after = (rank + 1) % size;
	long sum = 0;
	must(nc_open_par("ours.nc", NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file), "open");
	must(nc_get_att_int(file, NC_GLOBAL, "ranks", &ranks), "attribute");
	must(nc_inq_varid(file, "blocks", &blocks), "blocks");
	must(nc_inq_varid(file, "turns", &turns), "turns");
	must(nc_get_vara_long(file, blocks, (size_t[]){ (size_t)after * ROWS, 0 }, (size_t[]){ ROWS, COLUMNS }, block[0]), "get");
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++) {
			if (ranks != size || block[i][j] != value(after * ROWS + i, j))
				must(NC_ERANGE, "a block");
			sum += block[i][j];
		}
	for (int i = 0; i < ROWS; i += 10) {
		must(nc_get_vara_float(file, turns, (size_t[]){ (size_t)(i * size + after), 0 }, (size_t[]){ 1, COLUMNS }, turn), "get a turn");
		for (int j = 0; j < COLUMNS; j++)
			if (turn[j] != (float)(after + i))
				must(NC_ERANGE, "a turn");
	}
	must(nc_close(file), "close");
	return sum;
}

int main(int argc, char **argv)
{
	int rank, size;
	long sum, total;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	writes(rank, size);
	sum = reads(rank, size);
	MPI_Reduce(&sum, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("netcdf: ok, %ld\n", total);
	MPI_Finalize();
	return 0;
}
