"""Parallel HDF5 by h5py: ranks write rows of two datasets, collectively and not, and read those of the next rank."""
import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
after = (rank + 1) % size
ROWS, COLUMNS = 300, 1000


def row(number):
    return numpy.arange(number * COLUMNS, (number + 1) * COLUMNS, dtype="i8")


with h5py.File("ours.h5", "w", driver="mpio", comm=comm) as file:
    blocks = file.create_dataset("blocks", (size * ROWS, COLUMNS), dtype="i8")
    turns = file.create_dataset("turns", (size * ROWS, COLUMNS), dtype="f4", chunks=(50, 100))
    file.attrs["ranks"] = size
    mine = rank * ROWS
    with blocks.collective:
        blocks[mine : mine + ROWS] = numpy.stack([row(mine + i) for i in range(ROWS)])
    for i in range(0, ROWS, 10):
        turns[i * size + rank] = numpy.full(COLUMNS, rank + i, dtype="f4")

comm.Barrier()
with h5py.File("ours.h5", "r", driver="mpio", comm=comm) as file:
    assert file.attrs["ranks"] == size
    its = after * ROWS
    rows = file["blocks"][its : its + ROWS]
    assert all((rows[i] == row(its + i)).all() for i in range(ROWS))
    for i in range(0, ROWS, 10):
        assert (file["turns"][i * size + after] == after + i).all()
total = comm.allreduce(int(rows.sum()))
if rank == 0:
    print("h5py: ok,", total)
