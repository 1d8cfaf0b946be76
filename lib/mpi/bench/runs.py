"""What report and try share: which MPI libraries are here, and one run of one."""

import math
import os
import shutil
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, "..", "smartmap-run")
# Rows that measure no library, and one that happens once for each page of a buffer.
UNJUDGED = ("flag", "copy_once", "copy_twice", "first_bcast")
POINT_TO_POINT = ("pingpong", "stream")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
CELL_LIMIT = 1.05  # "never more than 5 % slower than the best of the others"
PROGRAM_LIMIT = 1.02  # of whole programs
NEAR_US = 0.1  # a flag between cores of one cache takes less, across caches more


def configurations(folder, benchmark="collectives", ranks=2):
    """Name -> (command prefix, extra environment, program) of what is installed."""
    found = {}
    n = ["-n", str(ranks)]
    is_crowded = ranks > os.cpu_count()
    openmpi = ["--oversubscribe", "--bind-to", "none", *n] if is_crowded else ["--bind-to", "core", *n]
    hydra = n if is_crowded else ["-bind-to", "core", *n]
    mpirun = ["mpirun.openmpi", *openmpi]
    program = [os.path.join(folder, "bench", f"{benchmark}-openmpi")]
    no_cma = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    found["smartmap"] = (mpirun + [RUN], {"SMARTMAP_TARGET": os.path.join(folder, "..")}, program)
    found["openmpi 4.1"] = (mpirun, {}, program)
    found["same, no CMA"] = (mpirun, no_cma, program)
    mpich = os.path.join(folder, "bench", f"{benchmark}-mpich")
    if shutil.which("mpirun.mpich") and os.path.exists(mpich):
        found["mpich 4.0"] = (["mpirun.mpich", *hydra], {}, [mpich])
    peers = os.path.join(folder, "peers")
    program = os.path.join(peers, f"{benchmark}-openmpi")
    if os.path.exists(program):
        # Without a network UCX only complains, of windows that live in shared memory.
        found["openmpi 5.0"] = ([f"{peers}/openmpi/bin/mpirun", *openmpi], {"OMPI_MCA_osc": "^ucx"}, [program])
    program = os.path.join(peers, f"{benchmark}-mpich")
    if os.path.exists(program):
        found["mpich 5.0"] = ([f"{peers}/mpich/bin/mpiexec", *hydra], {}, [program])
    if os.path.exists(program) and os.path.exists(f"{peers}/impi-rt/bin/mpiexec"):
        # Of one ABI with MPICH, so the same program runs; it pins by itself.
        intel = {"LD_LIBRARY_PATH": f"{peers}/impi-rt/lib", "I_MPI_ROOT": f"{peers}/impi-rt",
                 "I_MPI_FABRICS": "shm"}
        found["intel 2021"] = ([f"{peers}/impi-rt/bin/mpiexec", *n], intel, [program])
    return found


def placement(flags):
    """Where a run's two ranks were, by what its flags took, in microseconds; None: it has none."""
    where = {"near" if us < NEAR_US else "far" for us in flags}
    return "moved" if len(where) > 1 else where.pop() if where else None


def run_once(prefix, environment, program, samples, warm, sizes=()):
    """One run: {(name, bytes): (median, fastest) in microseconds}, and its placement."""
    arguments = [str(samples), "warm" if warm else "cold", *map(str, sizes)]
    done = subprocess.run(prefix + program + arguments, timeout=600, check=True,
                          env={**os.environ, **ROOT, **environment}, stdout=subprocess.PIPE, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    cells = {(r[0], int(r[1])): (float(r[2]), float(r[3])) for r in rows if len(r) == 4}
    return cells, placement([cells["flag", 8][0], cells.pop(("flag_after", 8))[0]])


def run_stubbornly(name, repeated, *run):
    """A launcher may crash at its end, once in hundreds of runs; that must not cost the others."""
    try:
        return run_once(*run)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{name}: {error}; once more", flush=True)
        repeated.append(name)
        return run_once(*run)


def collective(cell):
    return cell[0] not in UNJUDGED + POINT_TO_POINT


def judged(what, gains, limit=CELL_LIMIT):
    """One line on {cell: best of the others / ours}: the mean, and where ours is slower."""
    slow = [f"{cell} ({1 / g:.2f} times the best)" for cell, g in gains.items() if g < 1 / limit]
    return (f"speed of {what} against the best of the others {geometric_mean(gains.values()):.2f} (geometric mean), "
            f"{len(slow)} of {len(gains)} cells more than {100 * (limit - 1):.0f} % slower" + (": " + ", ".join(slow) if slow else ""))


def cpu_name():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def size_text(number):
    return f"{number} B" if number < 1024 else f"{number >> 10} KiB" if number < 1 << 20 else f"{number >> 20} MiB"
