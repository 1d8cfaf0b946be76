//! The plots of the report.

use super::Unit::{self, MegabytesPerSecond, TicksAsMs, TicksAsUs};
use super::short::{noise, strips};
use super::{Loss, Noise, Plot, Shape};

/// In the order of the report.
#[rustfmt::skip] // A table.
pub const PLOTS: &[Plot] = &[
    noise("fwq_count", "FWQ: instructions taken from each sample", FWQ, Unit::Instructions),
    noise("ftq_count", "FTQ: instructions lost in each interval", FTQ, Unit::Instructions),
    noise("selfish_count", "Selfish detour: instructions", SELFISH_COUNT, Unit::Instructions),
    noise("fwq", "FWQ: time taken from each sample", FWQ, TicksAsUs),
    noise("ftq", "FTQ: time lost in each interval", FTQ, TicksAsUs),
    noise("selfish", "Selfish detour: time", SELFISH, TicksAsUs),
    noise("neighbours", "Selfish detour beside a busy rank: time", SELFISH, TicksAsUs),
    strips("noise", "Longest detours in time", true),
    strips("boot", "Boot to first output", true),
    strips("boot_count", "Instructions from reset to main", true),
    strips("instructions", "Instructions that a call takes", true),
    strips("l1d", "Modelled misses of the L1 data cache", true),
    strips("l2", "Modelled misses of the L2 cache", true),
    strips("walks", "Memory references of modelled page walks", true),
    strips("touch", "Time to get and touch 4 KiB of memory", true),
    strips("stream", "STREAM", false),
    Plot {
        name: "stream_offset",
        title: "STREAM triad by distance between the arrays",
        shape: Shape::Lines {
            job: "stream_offset",
            x: ("offset", "OFFSET, elements of 8 bytes"),
            y: ("triad_MB_s", "triad", MegabytesPerSecond),
        },
    },
    strips("random", "Random access to 256 MiB", false),
    strips("calls", "Calls to files and pipes", true),
    strips("files", "Files in calls of 1 MiB", false),
    strips("listing", "A directory of 10,000 files", false),
    strips("printf", "printf to /dev/null", false),
    strips("cg", "Conjugate gradient", false),
    strips("python", "Python, started in a process that was there", true),
    strips("threads", "Threads on two cores", true),
    strips("mpi", "Messages of two ranks", true),
    strips("mpi_start", "MPI_Init to MPI_Finalize of two ranks", true),
    strips("hpcc_times", "HPC Challenge of two ranks", true),
    strips("collectives", "Collectives of two ranks", true),
    strips("openmp", "Constructs of OpenMP on two cores", true),
];

const FWQ: Noise = Noise {
    series: "fwq_ticks",
    title: "more than the shortest sample",
    loss: Loss::AboveLeast,
    unit: Unit::Instructions,
    at: None,
};
const FTQ: Noise = Noise {
    series: "ftq_count",
    title: "less than the best interval",
    loss: Loss::BelowMost { each: "unit_ticks" },
    ..FWQ
};
const SELFISH: Noise = Noise {
    series: "detour_ticks",
    title: "length of a detour",
    loss: Loss::Itself,
    at: Some(("detour_at", "time", TicksAsMs)),
    ..FWQ
};
const SELFISH_COUNT: Noise = Noise {
    at: Some(("detour_at", "place", Unit::Instructions)),
    ..SELFISH
};
