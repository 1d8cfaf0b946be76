//! Claims over several rows.

use super::Together::{self, GeometricMean, Most};

/// What is claimed of several figures together, as the ratio of the first system's to the last one's, or of the last one's to the
/// first's where more is better: below 1 the first is ahead.
#[derive(Debug)]
pub struct Claim {
    /// Its name, for ever.
    pub name: &'static str,
    /// For tables.
    pub title: &'static str,
    /// Names of the rows.
    pub rows: &'static [&'static str],
    /// How one ratio is made of theirs.
    pub make: Together,
    /// The most that is aimed at; `make compare` fails beyond it.
    pub most: Option<f64>,
}

const fn claim(
    name: &'static str,
    title: &'static str,
    make: Together,
    rows: &'static [&'static str],
) -> Claim {
    Claim {
        name,
        title,
        rows,
        make,
        most: None,
    }
}

impl Claim {
    const fn at_most(mut self, most: f64) -> Claim {
        self.most = Some(most);
        self
    }

    /// Whether a ratio is larger than what is aimed at.
    pub fn is_missed(&self, ratio: f64) -> bool {
        self.most.is_some_and(|most| ratio > most)
    }
}

/// In the order of the report.
#[rustfmt::skip] // A table.
pub const CLAIMS: &[Claim] = &[
    claim("futex_round_trip_ratio", "futex, to another core and back", Most, &["futex_round_trip_us"]).at_most(0.5),
    claim("create_join_ratio", "thread created and joined", Most, &["create_join_us"]).at_most(0.4),
    claim("openmp_ratio", "OpenMP barrier and parallel for", Most, &["omp_barrier_us", "omp_parallel_for_us"]).at_most(0.6),
    claim("touch_recycled_ratio", "memory that was used before, per 4 KiB", Most, &["touch_recycled_ns"]).at_most(1.0),
    claim("file_map_ratio", "1 MiB of a file mapped, a byte of each page read, unmapped", Most, &["file_map_us"]).at_most(1.5),
    claim("python_ratio", "python3 -c pass and import numpy, again", Most, &["python_again_ms", "numpy_again_ms"]).at_most(1.0),
    claim("pingpong_8b_ratio", "8 B one way, Open MPI and MPICH", Most, &["openmpi_8b_us", "mpich_8b_us"]).at_most(1.0),
    claim("oneway_64k_ratio", "64 KiB one way, Open MPI and MPICH", Most, &["openmpi_64k_us", "mpich_64k_us"]),
    claim("mpi_oneway_64k_ratio", "64 KiB one way, Open MPI", Most, &["openmpi_64k_us"]).at_most(0.5),
    claim("mpi_oneway_64k_same_ratio", "the same between buffers allocated alike, Open MPI", Most, &["openmpi_64k_same_us"]).at_most(0.6),
    claim("barrier_2_ratio", "barrier of two ranks, Open MPI and MPICH", Most, &["openmpi_barrier_us", "mpich_barrier_us"]),
    claim("allreduce_8b_ratio", "allreduce of 8 B, Open MPI and MPICH", Most, &["openmpi_allreduce_us", "mpich_allreduce_us"]),
    claim("mpi_init_s_ratio", "MPI_Init to MPI_Finalize, Open MPI and MPICH", Most, &["openmpi_init_ms", "mpich_init_ms"]).at_most(1.0),
    claim("barrier_4_on_2_ratio", "barrier of four ranks on two cores, Open MPI and MPICH", Most, &["openmpi_barrier_4_us", "mpich_barrier_4_us"]).at_most(5.0),
    claim("hpcc_ratio", "HPC Challenge, Open MPI", GeometricMean, &[
        "hpcc_hpl_ms", "hpcc_dgemm_mflops", "hpcc_ptrans_ms", "hpcc_random_ms", "hpcc_triad", "hpcc_fft_mflops",
        "hpcc_latency_us", "hpcc_ring_us", "hpcc_bandwidth", "hpcc_ring_bandwidth",
    ]).at_most(1.0),
    claim("coll_barrier_ratio", "barrier, lib/mpi against Open MPI's own", GeometricMean, &["coll_barrier_us"]),
    claim("coll_bcast_ratio", "bcast", GeometricMean, &["coll_bcast_8_us", "coll_bcast_1k_us", "coll_bcast_64k_us"]),
    claim("coll_allreduce_ratio", "allreduce", GeometricMean, &["coll_allreduce_8_us", "coll_allreduce_1k_us", "coll_allreduce_64k_us"]),
    claim("coll_alltoall_ratio", "alltoall", GeometricMean, &["coll_alltoall_8_us", "coll_alltoall_1k_us", "coll_alltoall_64k_us"]),
    claim("coll_gather_ratio", "gather", GeometricMean, &["coll_gather_8_us", "coll_gather_1k_us", "coll_gather_64k_us"]),
    claim("coll_all_ratio", "all of these collectives at all of these sizes", GeometricMean, &[
        "coll_barrier_us",
        "coll_bcast_8_us", "coll_bcast_1k_us", "coll_bcast_64k_us",
        "coll_allreduce_8_us", "coll_allreduce_1k_us", "coll_allreduce_64k_us",
        "coll_alltoall_8_us", "coll_alltoall_1k_us", "coll_alltoall_64k_us",
        "coll_gather_8_us", "coll_gather_1k_us", "coll_gather_64k_us",
    ]).at_most(0.667),
];
