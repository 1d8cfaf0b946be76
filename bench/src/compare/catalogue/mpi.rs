//! Jobs of MPI programs, by the launchers of Debian's Open MPI and MPICH: on Linux in the guest; on Margay the host's, which start yods.

use super::super::system::Mode::Wall;
use super::Unit::{
    GigabytesAsMegabytes, GigaflopsAsMegaflops, Microseconds, SecondsAsMs, TicksAsMs, TicksAsUs,
};
use super::short::{higher, job, lower};
use super::trees::{HPCC, MPICH, OPEN_MPI};
use super::{Job, Row};
use crate::launch::{Launch, Mpi};

/// Two ranks started by a launcher.
const fn ranks(
    name: &'static str,
    launch: Launch,
    program: &'static str,
    args: &'static [&'static str],
) -> Job {
    Job {
        ranks: 2,
        launch,
        tree: match launch {
            Launch::None => &[],
            Launch::Mpi(Mpi::Mpich) => MPICH,
            Launch::Mpi(Mpi::OpenMpi) | Launch::Components => OPEN_MPI,
        },
        ..job(name, Wall, program, args)
    }
}

/// Messages by Open MPI.
#[rustfmt::skip] // A table.
pub const MESSAGES_OPEN_MPI: Job = Job {
    about: "two ranks of Debian's Open MPI: messages, one way, and collectives that do little",
    rows: &[
        lower("openmpi_8b_us", "Open MPI, 8 B one way", "pingpong_8b_ticks", TicksAsUs, "mpi"),
        lower("openmpi_64k_us", "Open MPI, 64 KiB one way", "oneway_64k_ticks", TicksAsUs, "mpi"),
        lower("openmpi_64k_same_us", "Open MPI, 64 KiB one way, buffers allocated alike", "oneway_64k_same_ticks", TicksAsUs, "mpi"),
        lower("openmpi_barrier_us", "Open MPI, barrier", "barrier_ticks", TicksAsUs, "mpi"),
        lower("openmpi_allreduce_us", "Open MPI, allreduce of 8 B", "allreduce_8b_ticks", TicksAsUs, "mpi"),
    ],
    ..ranks("openmpi", Launch::Mpi(Mpi::OpenMpi), "openmpi_messages", &[])
};

/// Messages by MPICH.
#[rustfmt::skip] // A table.
pub const MESSAGES_MPICH: Job = Job {
    about: "the same of Debian's MPICH",
    rows: &[
        lower("mpich_8b_us", "MPICH, 8 B one way", "pingpong_8b_ticks", TicksAsUs, "mpi"),
        lower("mpich_64k_us", "MPICH, 64 KiB one way", "oneway_64k_ticks", TicksAsUs, "mpi"),
        lower("mpich_64k_same_us", "MPICH, 64 KiB one way, buffers allocated alike", "oneway_64k_same_ticks", TicksAsUs, "mpi"),
        lower("mpich_barrier_us", "MPICH, barrier", "barrier_ticks", TicksAsUs, "mpi"),
        lower("mpich_allreduce_us", "MPICH, allreduce of 8 B", "allreduce_8b_ticks", TicksAsUs, "mpi"),
    ],
    ..ranks("mpich", Launch::Mpi(Mpi::Mpich), "mpich_messages", &[])
};

/// Start and end by Open MPI.
#[rustfmt::skip] // A table.
pub const START_OPEN_MPI: Job = Job {
    about: "two ranks of Open MPI, from before MPI_Init to after MPI_Finalize",
    rows: &[lower("openmpi_init_ms", "Open MPI, MPI_Init to MPI_Finalize", "init_to_finalize_ticks", TicksAsMs, "mpi_start")],
    ..ranks("openmpi_start", Launch::Mpi(Mpi::OpenMpi), "openmpi_start", &[])
};

/// Start and end by MPICH.
#[rustfmt::skip] // A table.
pub const START_MPICH: Job = Job {
    about: "the same of MPICH",
    rows: &[lower("mpich_init_ms", "MPICH, MPI_Init to MPI_Finalize", "init_to_finalize_ticks", TicksAsMs, "mpi_start")],
    ..ranks("mpich_start", Launch::Mpi(Mpi::Mpich), "mpich_start", &[])
};

const fn collective(name: &'static str, title: &'static str, result: &'static str) -> Row {
    lower(name, title, result, TicksAsUs, "collectives")
}

/// Collectives by Open MPI, on Margay with our components.
#[rustfmt::skip] // A table.
pub const COLLECTIVES: Job = Job {
    about: "collectives of two ranks of Open MPI: on Margay with the components of lib/mpi, on Linux with its own",
    rows: &[
        collective("coll_barrier_us", "barrier", "barrier_ticks"),
        collective("coll_bcast_8_us", "bcast, 8 B", "bcast_8_ticks"),
        collective("coll_bcast_1k_us", "bcast, 1 KiB", "bcast_1024_ticks"),
        collective("coll_bcast_64k_us", "bcast, 64 KiB", "bcast_65536_ticks"),
        collective("coll_allreduce_8_us", "allreduce, 8 B", "allreduce_8_ticks"),
        collective("coll_allreduce_1k_us", "allreduce, 1 KiB", "allreduce_1024_ticks"),
        collective("coll_allreduce_64k_us", "allreduce, 64 KiB", "allreduce_65536_ticks"),
        collective("coll_alltoall_8_us", "alltoall, 8 B", "alltoall_8_ticks"),
        collective("coll_alltoall_1k_us", "alltoall, 1 KiB", "alltoall_1024_ticks"),
        collective("coll_alltoall_64k_us", "alltoall, 64 KiB", "alltoall_65536_ticks"),
        collective("coll_gather_8_us", "gather, 8 B", "gather_8_ticks"),
        collective("coll_gather_1k_us", "gather, 1 KiB", "gather_1024_ticks"),
        collective("coll_gather_64k_us", "gather, 64 KiB", "gather_65536_ticks"),
    ],
    ..ranks("collectives", Launch::Components, "openmpi_collectives", &[])
};

/// More ranks than cores.
#[rustfmt::skip] // A table.
pub const SHARED_CORES: Job = Job {
    about: "four ranks of Open MPI on two cores meet: those that wait yield",
    rows: &[lower("openmpi_barrier_4_us", "Open MPI, barrier of 4 ranks on 2 cores", "barrier_ticks", TicksAsUs, "mpi")],
    ranks: 4,
    ..ranks("openmpi_shared", Launch::Mpi(Mpi::OpenMpi), "openmpi_barrier", &[])
};

/// The same by MPICH.
#[rustfmt::skip] // A table.
pub const SHARED_CORES_MPICH: Job = Job {
    about: "the same of MPICH",
    rows: &[lower("mpich_barrier_4_us", "MPICH, barrier of 4 ranks on 2 cores", "barrier_ticks", TicksAsUs, "mpi")],
    ranks: 4,
    ..ranks("mpich_shared", Launch::Mpi(Mpi::Mpich), "mpich_barrier", &[])
};

/// The HPC Challenge, by Open MPI.
#[rustfmt::skip] // A table.
pub const CHALLENGE: Job = Job {
    about: "hpcc as two ranks of Open MPI, with a matrix of 400 x 400, of which all its sizes follow",
    rows: &[
        lower("hpcc_hpl_ms", "HPL", "HPL_time", SecondsAsMs, "hpcc_times"),
        higher("hpcc_dgemm_mflops", "DGEMM, both ranks at once", "StarDGEMM_Gflops", GigaflopsAsMegaflops, ""),
        lower("hpcc_ptrans_ms", "PTRANS", "PTRANS_time", SecondsAsMs, "hpcc_times"),
        lower("hpcc_random_ms", "RandomAccess over both ranks", "MPIRandomAccess_time", SecondsAsMs, "hpcc_times"),
        higher("hpcc_triad", "STREAM triad, both ranks at once", "StarSTREAM_Triad", GigabytesAsMegabytes, ""),
        higher("hpcc_fft_mflops", "FFT over both ranks", "MPIFFT_Gflops", GigaflopsAsMegaflops, ""),
        lower("hpcc_latency_us", "ping-pong of 8 B", "AvgPingPongLatency_usec", Microseconds, "mpi"),
        lower("hpcc_ring_us", "ring of 8 B", "RandomlyOrderedRingLatency_usec", Microseconds, "mpi"),
        higher("hpcc_bandwidth", "ping-pong of 2 MB", "AvgPingPongBandwidth_GBytes", GigabytesAsMegabytes, ""),
        higher("hpcc_ring_bandwidth", "ring of 2 MB", "RandomlyOrderedRingBandwidth_GBytes", GigabytesAsMegabytes, ""),
    ],
    tree: HPCC,
    ..ranks("hpcc", Launch::Mpi(Mpi::OpenMpi), "openmpi_hpcc", &[])
};
