//! What the measurements of this package share, and the measurements.
//!
//! `margay-bench` (`make bench`) finds what the specification promises: `catalogue` lists every figure with its unit, its aim
//! and how it is found, `suite` finds them in a `lab`, `table` and `output` show them. `compare` (`make compare`) sets
//! Margay beside other systems. Both run programs of bench/programs. Instructions are counted exactly (`-icount`), events
//! are counted by the kernel, and wall time is only compared: medians, interleaved, with their interval (`statistics`).
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod compare;
pub mod control;
pub mod figure;
pub mod gate;
pub mod lab;
pub mod launch;
pub mod native;
pub mod number;
pub mod output;
pub mod plugin;
pub mod process;
pub mod programs;
pub mod scratch;
pub mod statistics;
pub mod stats;
pub mod suite;
pub mod table;
