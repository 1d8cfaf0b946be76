"""mpi4py under smartmap-run: objects, buffers, communicators, fork, subprocess."""
import array
import os
import subprocess

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

assert comm.bcast({"a": list(range(1000))} if rank == 0 else None)["a"][999] == 999
assert comm.allgather(rank) == list(range(size))
assert comm.allreduce(rank + 1) == size * (size + 1) // 2
assert comm.alltoall([(rank, i) for i in range(size)]) == [(i, rank) for i in range(size)]
assert comm.scatter([i * "x" for i in range(size)] if rank == 0 else None) == rank * "x"
assert comm.scan(rank) == rank * (rank + 1) // 2
pieces = comm.gather(b"z" * 100000 * (rank + 1))
assert rank or [len(p) for p in pieces] == [100000 * (i + 1) for i in range(size)]

operand, total = array.array("d", [rank] * 50000), array.array("d", [0] * 50000)
comm.Allreduce(operand, total)
assert set(total) == {size * (size - 1) / 2}

copy = comm.Dup()
copy.Barrier()
copy.Free()

assert subprocess.run(["true"], check=False).returncode == 0
child = os.fork()
if child == 0:
    os._exit(0 if set(total) == {size * (size - 1) / 2} else 1)
assert os.waitpid(child, 0)[1] == 0
comm.Barrier()
if rank == 0:
    print("python: ok")
