//! yods that a launcher starts, one for each rank: they share a node, and end as ranks of one job do.
//!
//! Most tests start yods themselves, with the variables of a launcher (`job`); `mpi` and `conform` have Debian's mpirun and mpiexec do
//! it.

mod batch;
mod binding;
mod conform;
mod hosts;
mod job;
mod kill;
mod meeting;
mod mpi;
mod namespaces;
mod relaunch;
mod rough;
mod single_copy;
mod slurm;
mod wrong;
