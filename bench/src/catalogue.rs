//! Every figure there is: the one list that the table, the JSON lines, `--only` and the specification go by.

/// What a figure should be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Aim {
    /// Promised: at most this.
    AtMost(f64),
    /// Promised, and too long for every check: `make check-long` holds it.
    AtMostInLong(f64),
    /// Not promised, but aimed at: at most this.
    Towards(f64),
    /// Not promised, but aimed at: at least this.
    TowardsAtLeast(f64),
    /// Only reported.
    None,
}

/// A figure, not yet measured.
#[derive(Debug)]
pub struct Row {
    /// Its name, for ever.
    pub name: &'static str,
    /// Of its value.
    pub unit: &'static str,
    /// What it should be.
    pub aim: Aim,
    /// How it is found.
    pub how: &'static str,
}

impl Aim {
    /// Whether a value is as it should be; `None` when there is nothing to be.
    pub fn met(self, value: f64) -> Option<bool> {
        match self {
            Aim::AtMost(most) | Aim::AtMostInLong(most) | Aim::Towards(most) => Some(value <= most),
            Aim::TowardsAtLeast(least) => Some(value >= least),
            Aim::None => None,
        }
    }
}

const fn row(name: &'static str, unit: &'static str, aim: Aim, how: &'static str) -> Row {
    Row {
        name,
        unit,
        aim,
        how,
    }
}

/// In the order they are shown.
pub const CATALOGUE: &[Row] = &[
    row(
        "boot_instructions",
        "instructions",
        Aim::AtMost(30e6),
        "plugin: executed from reset to a program's main, least of 5 runs",
    ),
    row(
        "start_16_ranks_instructions",
        "instructions",
        Aim::Towards(120e3),
        "plugin: executed from reset to the end of a job of 16 ranks on one core, less that of one, per rank",
    ),
    row(
        "start_64_ranks_instructions",
        "instructions",
        Aim::None,
        "plugin: executed from reset to the end of a job of 64 ranks on one core, less that of one, per rank",
    ),
    row(
        "start_255_ranks_instructions",
        "instructions",
        Aim::None,
        "plugin: executed from reset to the end of a job of 255 ranks on one core, less that of one, per rank",
    ),
    row(
        "boot_wall_s",
        "s",
        Aim::Towards(0.20),
        "from starting yod to the first byte of output, median of 21",
    ),
    row(
        "min_memory_mib",
        "MiB",
        Aim::AtMost(12.0),
        "smallest node besides the partition that runs a program, -n 1, one core",
    ),
    row(
        "local_call_instructions",
        "instructions",
        Aim::AtMost(100.0),
        "icount: the most of getpid, getppid, gettid, getuid; loop taken off",
    ),
    row(
        "clock_getres_instructions",
        "instructions",
        Aim::AtMost(112.0),
        "icount: the same",
    ),
    row(
        "rt_sigprocmask_instructions",
        "instructions",
        Aim::AtMost(130.0),
        "icount: the same, asking only",
    ),
    row(
        "clock_gettime_instructions",
        "instructions",
        Aim::AtMost(210.0),
        "icount: the same, as a call, not by the vDSO",
    ),
    row(
        "local_call_counted_instructions",
        "instructions",
        Aim::None,
        "as local_call_instructions, with --stats",
    ),
    row(
        "thread_create_join_instructions",
        "instructions",
        Aim::AtMost(15_000.0),
        "icount: pthread_create and pthread_join of a thread that does nothing, on one core, median",
    ),
    row(
        "touch_fresh_4k_instructions",
        "instructions",
        Aim::Towards(900.0),
        "icount: mmap of 4 KiB and a store per 4 KiB, per 4 KiB, memory never used before, median",
    ),
    row(
        "touch_fresh_64k_instructions",
        "instructions",
        Aim::Towards(80.0),
        "icount: mmap of 64 KiB and a store per 4 KiB, per 4 KiB, memory never used before, median",
    ),
    row(
        "touch_fresh_1m_instructions",
        "instructions",
        Aim::Towards(30.0),
        "icount: mmap of 1 MiB and a store per 4 KiB, per 4 KiB, memory never used before, median",
    ),
    row(
        "touch_fresh_2m_instructions",
        "instructions",
        Aim::AtMost(30.0),
        "icount: mmap of 2 MiB and a store per 4 KiB, per 4 KiB, memory never used before, median",
    ),
    row(
        "touch_fresh_instructions_per_4k",
        "instructions",
        Aim::AtMost(30.0),
        "icount: the same with 64 MiB, median of 7",
    ),
    row(
        "first_touch_ratio",
        "of the next",
        Aim::None,
        "a store in each 4 KiB of 64 MiB never used before, over the next store there, median of 7: what the host does behind it",
    ),
    row(
        "touch_recycled_4k_instructions",
        "instructions",
        Aim::Towards(1500.0),
        "icount: mmap of 4 KiB and a store per 4 KiB, per 4 KiB, after the whole partition was dirtied and freed, median",
    ),
    row(
        "touch_recycled_64k_instructions",
        "instructions",
        Aim::Towards(620.0),
        "icount: mmap of 64 KiB and a store per 4 KiB, per 4 KiB, after the whole partition was dirtied and freed, median",
    ),
    row(
        "touch_recycled_1m_instructions",
        "instructions",
        Aim::Towards(540.0),
        "icount: mmap of 1 MiB and a store per 4 KiB, per 4 KiB, after the whole partition was dirtied and freed, median",
    ),
    row(
        "touch_recycled_2m_instructions",
        "instructions",
        Aim::AtMost(540.0),
        "icount: mmap of 2 MiB and a store per 4 KiB, per 4 KiB, after the whole partition was dirtied and freed, median",
    ),
    row(
        "touch_recycled_instructions_per_4k",
        "instructions",
        Aim::AtMost(540.0),
        "icount: the same with 64 MiB, median of 7",
    ),
    row(
        "faults_after_start",
        "faults",
        Aim::AtMost(0.0),
        "kernel counters: page faults in a 10 s spin, STREAM and the touch programs",
    ),
    row(
        "kernel_entries_after_start",
        "entries",
        Aim::AtMost(0.0),
        "kernel counters: entries from ring 3 that are no system call, in a 10 s spin and STREAM",
    ),
    row(
        "ticks_after_start",
        "interrupts",
        Aim::AtMost(0.0),
        "kernel counters: timer interrupts in a 10 s spin and STREAM",
    ),
    row(
        "irqs_off_max_instructions",
        "instructions",
        Aim::AtMost(10_000.0),
        "plugin, by the flag: longest section with interrupts off over demanding programs and those of windows",
    ),
    row(
        "irqs_off_programs_instructions",
        "instructions",
        Aim::AtMostInLong(10_000.0),
        "plugin, by the flag: longest section with interrupts off over all conformance programs",
    ),
    row(
        "shipped_lseek_instructions",
        "instructions",
        Aim::AtMost(800.0),
        "icount: from `syscall` to the next instruction, the least of them: the host answers at once",
    ),
    row(
        "shipped_lseek_median_instructions",
        "instructions",
        Aim::None,
        "icount: the median of the same calls",
    ),
    row(
        "shipped_lseek_mean_instructions",
        "instructions",
        Aim::None,
        "icount: the mean of the same calls",
    ),
    row(
        "shipped_lseek_p99_instructions",
        "instructions",
        Aim::None,
        "icount: the 99th percentile of the same calls",
    ),
    row(
        "shipped_lseek_us",
        "us",
        Aim::Towards(25.0),
        "wall time of a call as the program sees it, median",
    ),
    row(
        "shipped_lseek_mean_us",
        "us",
        Aim::None,
        "wall time, mean of the same calls",
    ),
    row(
        "shipped_lseek_p99_us",
        "us",
        Aim::None,
        "wall time, 99th percentile of the same calls",
    ),
    row(
        "file_read_ratio",
        "of native",
        Aim::TowardsAtLeast(0.6),
        "1 GiB in 1 MiB calls, throughput over native, interleaved runs",
    ),
    row(
        "file_write_ratio",
        "of native",
        Aim::TowardsAtLeast(0.6),
        "as file_read_ratio, onto a file that is in memory",
    ),
    row(
        "fork_10mib_ratio",
        "of native",
        Aim::Towards(3.0),
        "fork, exit and wait with 10 MiB touched, time over native, 21 interleaved runs",
    ),
    row(
        "spawn_ratio",
        "of native",
        Aim::Towards(2.0),
        "posix_spawn and wait of /bin/true by the same program",
    ),
    row(
        "fork_python_ratio",
        "of native",
        Aim::Towards(8.0),
        "fork, exit and wait by a Python that has loaded nothing (-I -S), as fork_10mib_ratio",
    ),
    row(
        "create_ratio",
        "of native",
        Aim::Towards(10.0),
        "open and close of a new file in memory (/dev/shm), median of 1,000, 21 interleaved runs",
    ),
    row(
        "open_ratio",
        "of native",
        Aim::None,
        "open and close of the same files again",
    ),
    row(
        "same_addresses_ratio",
        "of others",
        Aim::Towards(1.3),
        "64 KiB copied between buffers that two ranks have allocated alike, over others, least of 400; the worst of three ways",
    ),
    row(
        "pingpong_calls_openmpi",
        "calls per 5 ms",
        Aim::Towards(1.0),
        "--strace: calls of a rank of Debian's Open MPI in a ping-pong of 8 B, of the rank that has more",
    ),
    row(
        "pingpong_calls_mpich",
        "calls",
        Aim::Towards(0.0),
        "the same of Debian's MPICH, in all",
    ),
    row(
        "exec_to_exit_s",
        "s",
        Aim::Towards(0.35),
        "wall time of yod with the shortest program, median of 21",
    ),
    row(
        "kernel_elf_bytes",
        "bytes",
        Aim::None,
        "the kernel's file without symbols",
    ),
];

/// The row of a name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    CATALOGUE.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_measured_by_one_group() {
        for (i, row) in CATALOGUE.iter().enumerate() {
            assert!(
                CATALOGUE[..i].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
            let groups = crate::suite::GROUPS
                .iter()
                .filter(|group| group.names.contains(&row.name));
            assert_eq!(groups.count(), 1, "{}", row.name);
        }
    }

    #[test]
    fn the_specification_names_every_figure() {
        let specification = include_str!("../../docs/SPECIFICATION.md");
        for row in CATALOGUE {
            assert!(
                specification.contains(&format!("`{}`", row.name)),
                "{} is not in docs/SPECIFICATION.md",
                row.name
            );
        }
    }

    #[test]
    fn aims_have_a_direction() {
        assert_eq!(Aim::AtMost(0.0).met(0.0), Some(true));
        assert_eq!(Aim::Towards(0.2).met(0.3), Some(false));
        assert_eq!(Aim::TowardsAtLeast(0.6).met(0.7), Some(true));
        assert_eq!(Aim::None.met(1.0), None);
    }
}
