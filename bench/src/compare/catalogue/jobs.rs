//! The programs that are run.
//!
//! A job is a program of bench/programs with its arguments and the way it is measured; a row is one figure of it: its name for
//! ever, its title, what the program prints it as, its unit, and the plot that shows it ("": none). To add a program: its source
//! in bench/programs, a job here with a row per figure, and one in `plots` if none of these will do; `short` has the words
//! that these tables are written in. `--only` takes names of jobs and of rows.

use super::super::system::Mode::{Events, Executed, Instructions, Memory, Wall};
use super::Unit::{
    self, Count, MegabytesPerSecond, Megaflops, Percent, Seconds, SecondsAsMs, TicksAsMs,
    TicksAsNs, TicksAsUs,
};
use super::short::{counted, event, higher, job, least, longest, lower, most, spread};
use super::trees::{NUMPY, PYTHON};
use super::{Job, mpi};

/// Elements, passes, and distances from none to more than a page.
const OFFSETS: &[&str] = &[
    "1000000", "3", "0", "64", "128", "192", "256", "320", "384", "448", "512", "576", "640",
];
const MIB_64: &str = "67108864";
const MIB_256: &str = "268435456";

/// In the order of the report.
#[rustfmt::skip] // A table.
pub const JOBS: &[Job] = &[
    Job {
        about: "noise: the same work over and over; a detour is what a turn takes more than the shortest",
        rows: &[longest("fwq_longest_instructions", "longest detour, FWQ", Unit::Instructions, "")],
        ..job("fwq_count", Instructions, "fwq", &["2000", "50000"])
    },
    Job {
        about: "noise: how much work fits into intervals of the same length",
        rows: &[longest("ftq_longest_instructions", "longest detour, FTQ", Unit::Instructions, "")],
        ..job("ftq_count", Instructions, "ftq", &["2000", "100000"])
    },
    Job {
        about: "noise: gaps in a loop that only reads the clock",
        rows: &[longest("selfish_longest_instructions", "longest detour, selfish", Unit::Instructions, "")],
        ..job("selfish_count", Instructions, "selfish", &["10000000"])
    },
    Job {
        about: "as fwq_count, in time; what the host does to the emulator is in it",
        rows: &[longest("fwq_longest_us", "longest detour, FWQ", TicksAsUs, "noise")],
        ..job("fwq", Wall, "fwq", &["2000", "100000"])
    },
    Job {
        about: "as fwq, by two threads of a process, each bound to a core of its own; the longest of both",
        rows: &[longest("fwq_threads_longest_us", "longest detour, FWQ, two threads", TicksAsUs, "noise")],
        threads: 2,
        ..job("fwq_threads", Wall, "omp_fwq", &["2000", "100000"])
    },
    Job {
        about: "as ftq_count, in time; no more than an interval can be lost",
        rows: &[longest("ftq_longest_us", "longest detour, FTQ", TicksAsUs, "noise")],
        ..job("ftq", Wall, "ftq", &["200", "20000000"])
    },
    Job {
        about: "as selfish_count, in time",
        rows: &[
            longest("selfish_longest_us", "longest detour, selfish", TicksAsUs, "noise"),
            lower("selfish_lost_us", "all detours, selfish", "lost_ticks", TicksAsUs, ""),
        ],
        ..job("selfish", Wall, "selfish", &["20000000"])
    },
    Job {
        about: "as selfish in rank 0, while rank 1 maps, writes files, sleeps and gets signals",
        rows: &[
            longest("neighbours_longest_us", "longest, busy neighbour", TicksAsUs, "noise"),
            lower("neighbours_lost_us", "all, busy neighbour", "lost_ticks", TicksAsUs, ""),
            higher("neighbours_rounds", "what the busy neighbour got done", "rounds", Count, ""),
        ],
        ranks: 2,
        ..job("neighbours", Wall, "neighbours", &["2", "1"])
    },
    Job {
        about: "from starting QEMU (Margay: yod) to the first byte that a program prints",
        rows: &[lower("boot_s", "boot to first output", "first_output_s", Seconds, "boot")],
        ..job("boot", Wall, "first", &[])
    },
    Job {
        about: "getting memory and storing to each 4 KiB of it, memory that nobody used before",
        rows: &[lower("touch_fresh_ns", "fresh, per 4 KiB", "fresh", TicksAsNs, "touch")],
        ..job("touch_fresh", Wall, "touch", &["fresh", MIB_64, "7"])
    },
    Job {
        about: "the same after all memory was dirtied and freed",
        rows: &[lower("touch_recycled_ns", "recycled, per 4 KiB", "recycled", TicksAsNs, "touch")],
        ..job("touch_recycled", Wall, "touch", &["recycled", MIB_64, "7"])
    },
    Job {
        about: "STREAM with 2 million elements per array",
        rows: &[
            higher("stream_copy", "STREAM copy", "copy_MB_s", MegabytesPerSecond, "stream"),
            higher("stream_scale", "STREAM scale", "scale_MB_s", MegabytesPerSecond, "stream"),
            higher("stream_add", "STREAM add", "add_MB_s", MegabytesPerSecond, "stream"),
            higher("stream_triad", "STREAM triad", "triad_MB_s", MegabytesPerSecond, "stream"),
        ],
        ..job("stream", Wall, "stream", &["2000000", "5"])
    },
    Job {
        about: "STREAM with other distances between the arrays: how much the best and the worst differ",
        rows: &[spread("stream_offset_spread", "triad, best over worst OFFSET", "triad_MB_s")],
        ..job("stream_offset", Wall, "stream", OFFSETS)
    },
    Job {
        about: "random access to a table, on large pages where the system has them",
        rows: &[
            lower("random_large_update_ns", "update, large pages", "update_ticks", TicksAsNs, "random"),
            lower("random_large_chase_ns", "chase, large pages", "chase_ticks", TicksAsNs, "random"),
        ],
        ..job("random_large", Wall, "random", &["256", "1000000", "large"])
    },
    Job {
        about: "the same on pages of 4 KiB",
        rows: &[
            lower("random_small_update_ns", "update, small pages", "update_ticks", TicksAsNs, "random"),
            lower("random_small_chase_ns", "chase, small pages", "chase_ticks", TicksAsNs, "random"),
        ],
        ..job("random_small", Wall, "random", &["256", "1000000", "small"])
    },
    Job {
        about: "lseek, which does next to nothing; Margay has Linux do it",
        rows: &[lower("lseek_us", "lseek", "median_us", Unit::Microseconds, "calls")],
        ..job("lseek", Wall, "lseek", &["/proc/self/exe", "5000"])
    },
    Job {
        about: "a byte through a pipe, written and read by one process; Margay has Linux do both",
        rows: &[lower("pipe_us", "pipe, write and read", "round_ticks", TicksAsUs, "calls")],
        ..job("pipe", Wall, "pipe", &["10000", "1"])
    },
    Job {
        about: "64 MiB read in calls of 4 KiB",
        rows: &[lower("read_4k_us", "read 4 KiB", "call_ticks", TicksAsUs, "calls")],
        prepare: &["write", "file", MIB_64],
        ..job("read_4k", Wall, "file", &["read", "file", MIB_64, "4096"])
    },
    Job {
        about: "256 MiB written in calls of 1 MiB onto a file in memory: on Linux the guest's, on Margay the host's",
        rows: &[lower("file_write_us", "write 1 MiB", "call_ticks", TicksAsUs, "files")],
        prepare: &["write", "file", MIB_256],
        ..job("file_write", Wall, "file", &["write", "file", MIB_256])
    },
    Job {
        about: "the same, read",
        rows: &[lower("file_read_us", "read 1 MiB", "call_ticks", TicksAsUs, "files")],
        prepare: &["write", "file", MIB_256],
        ..job("file_read", Wall, "file", &["read", "file", MIB_256])
    },
    Job {
        about: "a file of 1 MiB in memory, as the last two's, mapped and shared, a byte of each page read, and unmapped, again and again",
        rows: &[lower("file_map_us", "mmap, 256 pages read, munmap", "pair_ticks", TicksAsUs, "files")],
        ..job("file_map", Wall, "file_map", &["file"])
    },
    Job {
        about: "a directory of 10,000 files read",
        rows: &[lower("getdents_ms", "list 10,000 files", "list_seconds", SecondsAsMs, "listing")],
        ..job("getdents", Wall, "getdents", &["10000"])
    },
    Job {
        about: "100,000 lines printed to /dev/null through the C library's buffer",
        rows: &[lower("printf_ns", "printf, per line", "line_ticks", TicksAsNs, "printf")],
        ..job("printf", Wall, "printf", &["100000"])
    },
    Job {
        about: "conjugate gradient on a 27-point stencil, as HPCCG",
        rows: &[higher("cg_1_mflops", "CG, 1 rank", "MFLOP_s", Megaflops, "cg")],
        ..job("cg_1", Wall, "cg", &["32", "32", "32", "30"])
    },
    Job {
        about: "the same with twice the points on two ranks; halos and sums go over FIFOs",
        rows: &[
            higher("cg_2_mflops", "CG, 2 ranks", "MFLOP_s", Megaflops, "cg"),
            lower("cg_2_exchange_s", "CG, 2 ranks: exchange", "exchange_seconds", Seconds, ""),
        ],
        ranks: 2,
        ..job("cg_2", Wall, "cg", &["32", "32", "32", "30", "2"])
    },
    Job {
        about: "Python from exec to the end of a script that does nothing, again and again in one process; the first reads it from disk",
        rows: &[
            lower("python_first_ms", "python3 -c pass, first", "first_ticks", TicksAsMs, "python"),
            lower("python_again_ms", "python3 -c pass, again", "again_ticks", TicksAsMs, "python"),
        ],
        tree: PYTHON,
        ..job("python", Wall, "again", &["pass"])
    },
    Job {
        about: "the same with a script that imports numpy",
        rows: &[
            lower("numpy_first_ms", "import numpy, first", "first_ticks", TicksAsMs, "python"),
            lower("numpy_again_ms", "import numpy, again", "again_ticks", TicksAsMs, "python"),
        ],
        tree: NUMPY,
        ..job("numpy", Wall, "again", &["import numpy", "5"])
    },
    Job {
        about: "two threads on cores of their own wake each other by a futex; there and back",
        rows: &[lower("futex_round_trip_us", "futex, to another core and back", "round_trip_ticks", TicksAsUs, "threads")],
        threads: 2,
        ..job("round_trip", Wall, "round_trip", &["2000"])
    },
    Job {
        about: "pthread_create of a thread that does nothing, and pthread_join",
        rows: &[lower("create_join_us", "thread created and joined", "create_join_ticks", TicksAsUs, "threads")],
        threads: 2,
        ..job("create_join", Wall, "threads", &["500"])
    },
    Job {
        about: "constructs of OpenMP on two cores, the work in them taken off (after EPCC's microbenchmarks)",
        rows: &[
            lower("omp_barrier_us", "OpenMP barrier", "barrier_ticks", TicksAsUs, "openmp"),
            lower("omp_parallel_us", "OpenMP parallel", "parallel_ticks", TicksAsUs, "openmp"),
            lower("omp_parallel_for_us", "OpenMP parallel for", "parallel_for_ticks", TicksAsUs, "openmp"),
        ],
        threads: 2,
        ..job("constructs", Wall, "omp_constructs", &["20", "200"])
    },
    mpi::MESSAGES_OPEN_MPI,
    mpi::MESSAGES_MPICH,
    mpi::START_OPEN_MPI,
    mpi::START_MPICH,
    mpi::SHARED_CORES,
    mpi::SHARED_CORES_MPICH,
    mpi::CHALLENGE,
    mpi::COLLECTIVES,
    Job {
        about: "from reset, firmware included, to a program's main, by the plugin; of all runs the one that waited least for the host",
        rows: &[least("boot_instructions", "boot to main", "instructions_before_main", Unit::Instructions, "boot_count")],
        ..job("boot_count", Executed, "first", &[])
    },
    Job {
        about: "system calls that a kernel answers from what it knows; the loop is taken off",
        rows: &[
            counted("null_call_instructions", "getpid", "getpid"),
            counted("getppid_instructions", "getppid", "getppid"),
            counted("clock_getres_instructions", "clock_getres", "clock_getres"),
        ],
        ..job("calls_count", Instructions, "calls", &[])
    },
    Job {
        about: "mmap and munmap, with a store in every 4 KiB or without; the heap grown, touched and shrunk",
        rows: &[
            counted("map_4k_instructions", "mmap + munmap 4 KiB", "map_4K"),
            counted("map_1m_instructions", "mmap + munmap 1 MiB", "map_1M"),
            counted("map_touch_1m_instructions", "with 1 MiB touched", "map_touch_1M"),
            counted("brk_4k_instructions", "brk 4 KiB, touched", "brk_4K"),
            counted("brk_1m_instructions", "brk 1 MiB, touched", "brk_1M"),
        ],
        ..job("mappings_count", Instructions, "mappings", &[])
    },
    Job {
        about: "process_vm_readv, on the process itself; the copy, eight bytes an instruction, is taken off",
        rows: &[
            counted("process_vm_fixed_instructions", "process_vm_readv, per call", "fixed_ticks"),
            counted("process_vm_page_instructions", "process_vm_readv, more per 4 KiB", "page_ticks"),
        ],
        ..job("process_vm_count", Instructions, "process_vm", &[])
    },
    Job {
        about: "as touch_fresh",
        rows: &[counted("touch_fresh_instructions", "touch fresh, per 4 KiB", "fresh")],
        ..job("touch_fresh_count", Instructions, "touch", &["fresh", MIB_64, "7"])
    },
    Job {
        about: "as touch_recycled",
        rows: &[counted("touch_recycled_instructions", "touch recycled, per 4 KiB", "recycled")],
        ..job("touch_recycled_count", Instructions, "touch", &["recycled", MIB_64, "7"])
    },
    Job {
        about: "a signal to oneself, with a handler that does nothing",
        rows: &[
            counted("signal_instructions", "signal to self and back", "self_ticks"),
            counted("signal_handler_instructions", "signal to its handler", "to_handler_ticks"),
        ],
        ..job("signal_count", Instructions, "signal", &[])
    },
    Job {
        about: "STREAM, modelled",
        rows: &[
            lower("stream_l1d", "STREAM: L1D misses", "l1d_misses", Count, "l1d"),
            lower("stream_l2", "STREAM: L2 misses", "l2_misses", Count, "l2"),
            lower("stream_walks", "STREAM: page walks", "walk_references", Count, "walks"),
            higher("stream_large_pages", "STREAM: memory in large pages", "large_pages_percent", Percent, ""),
            lower("stream_walks_4k", "STREAM: walks if all were 4 KiB", "walk_references_4k", Count, ""),
            lower("stream_walks_2m", "STREAM: walks if all were 2 MiB", "walk_references_2m", Count, ""),
        ],
        ..job("stream_memory", Memory, "stream", &["500000", "2"])
    },
    Job {
        about: "random access to 64 MiB, modelled",
        rows: &[
            lower("random_l1d", "random: L1D misses", "l1d_misses", Count, "l1d"),
            lower("random_l2", "random: L2 misses", "l2_misses", Count, "l2"),
            lower("random_walks", "random: page walks", "walk_references", Count, "walks"),
            higher("random_large_pages", "random: memory in large pages", "large_pages_percent", Percent, ""),
            lower("random_walks_4k", "random: walks if all were 4 KiB", "walk_references_4k", Count, ""),
            lower("random_walks_2m", "random: walks if all were 2 MiB", "walk_references_2m", Count, ""),
        ],
        ..job("random_memory", Memory, "random", &["64", "200000", "large"])
    },
    Job {
        about: "conjugate gradient, modelled",
        rows: &[
            lower("cg_l1d", "CG: L1D misses", "l1d_misses", Count, "l1d"),
            lower("cg_l2", "CG: L2 misses", "l2_misses", Count, "l2"),
            lower("cg_walks", "CG: page walks", "walk_references", Count, "walks"),
            higher("cg_large_pages", "CG: memory in large pages", "large_pages_percent", Percent, ""),
            lower("cg_walks_4k", "CG: walks if all were 4 KiB", "walk_references_4k", Count, ""),
            lower("cg_walks_2m", "CG: walks if all were 2 MiB", "walk_references_2m", Count, ""),
        ],
        ..job("cg_memory", Memory, "cg", &["24", "24", "24", "5"])
    },
    Job {
        about: "a program that computes for 2 s and asks for nothing",
        rows: &[
            event("spin_faults", "spin: page faults", "page_faults"),
            event("spin_ticks", "spin: timer interrupts", "timer_interrupts"),
            event("spin_interrupts", "spin: all interrupts", "interrupts"),
        ],
        ..job("spin_events", Events, "spin", &["2"])
    },
    Job {
        about: "STREAM",
        rows: &[
            event("stream_faults", "STREAM: page faults", "page_faults"),
            event("stream_ticks", "STREAM: timer interrupts", "timer_interrupts"),
            event("stream_interrupts", "STREAM: all interrupts", "interrupts"),
        ],
        ..job("stream_events", Events, "stream", &["2000000", "5"])
    },
    Job {
        about: "FWQ by two threads on two cores",
        rows: &[
            event("fwq_threads_faults", "FWQ, two threads: page faults", "page_faults"),
            event("fwq_threads_ticks", "FWQ, two threads: timer interrupts", "timer_interrupts"),
        ],
        threads: 2,
        ..job("fwq_threads_events", Events, "omp_fwq", &["2000", "100000"])
    },
    Job {
        about: "STREAM with OpenMP on two cores",
        rows: &[
            event("omp_stream_faults", "OpenMP STREAM: page faults", "page_faults"),
            event("omp_stream_ticks", "OpenMP STREAM: timer interrupts", "timer_interrupts"),
        ],
        threads: 2,
        ..job("omp_stream_events", Events, "omp_stream", &["2000000", "5"])
    },
    Job {
        about: "conjugate gradient with OpenMP on two cores",
        rows: &[
            event("omp_cg_faults", "OpenMP CG: page faults", "page_faults"),
            event("omp_cg_ticks", "OpenMP CG: timer interrupts", "timer_interrupts"),
        ],
        threads: 2,
        ..job("omp_cg_events", Events, "omp_cg", &["32", "32", "32", "30"])
    },
    Job {
        about: "calls that give the kernel as much to do at once as can be asked for; by the flag itself, from main to the end",
        rows: &[most("irqs_off_instructions", "longest section with interrupts off", "irqs_off", Unit::Instructions)],
        ..job("demanding_count", Executed, "demanding", &["64"])
    },
    Job {
        about: "the same",
        rows: &[event("demanding_faults", "demanding: page faults", "page_faults")],
        ..job("demanding_events", Events, "demanding", &["64"])
    },
];
