//! The programs, their sizes, and how figures are read from what they print.

use anyhow::{Context, Result, ensure};

use crate::output::{Results, series};

/// How much a program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// So much that a real machine takes about a second.
    Full,
    /// So little that an emulated one does.
    Tiny,
}

/// A program and what it finds.
#[derive(Debug)]
pub struct Job {
    /// Of bench/programs.
    pub program: &'static str,
    /// Its arguments; `{}` is its own file.
    pub full: &'static [&'static str],
    /// With tiny sizes.
    pub tiny: &'static [&'static str],
    /// Cores that it takes.
    pub cores: usize,
    /// Of its rank, as yod's -m.
    pub memory: &'static str,
    /// What is read from its output.
    pub figures: &'static [Figure],
}

/// A row of the report.
#[derive(Debug)]
pub struct Figure {
    /// Its name, for ever.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Of the value.
    pub unit: &'static str,
    /// From a run.
    pub value: fn(&Seen) -> Result<f64>,
}

/// What is known of a run.
#[derive(Debug)]
pub struct Seen {
    /// What the program printed.
    pub stdout: String,
    /// From starting it (or yod) to its first output, and to the end.
    pub first_output_s: Option<f64>,
    /// The same, to the end.
    pub seconds: f64,
    /// The TSC's frequency.
    pub tsc_hz: f64,
}

impl Seen {
    fn number(&self, name: &str) -> Result<f64> {
        Results::parse(&self.stdout).one(name)
    }

    fn nanoseconds(&self, name: &str) -> Result<f64> {
        Ok(self.number(name)? * 1e9 / self.tsc_hz)
    }

    fn microseconds(&self, name: &str) -> Result<f64> {
        Ok(self.nanoseconds(name)? / 1e3)
    }

    fn series(&self, name: &str) -> Result<Vec<f64>> {
        let all = series(&self.stdout);
        let found = all.into_iter().find(|(each, _)| each == name);
        Ok(found
            .with_context(|| format!("the program did not print {name}"))?
            .1)
    }

    /// Of FWQ's samples: time beyond the shortest, of all time, in percent.
    fn lost_by_quanta_of_work(&self) -> Result<f64> {
        let ticks = self.series("fwq_ticks")?;
        let least = ticks.iter().copied().fold(f64::INFINITY, f64::min);
        let all: f64 = ticks.iter().sum();
        ensure!(all > 0.0, "samples that took no time");
        Ok(100.0 * (all - least * ticks.len() as f64) / all)
    }

    /// Of FTQ's intervals: work short of the most, of all that could have been done, in percent.
    fn lost_by_quanta_of_time(&self) -> Result<f64> {
        let counts = self.series("ftq_count")?;
        let most = counts.iter().copied().fold(0.0, f64::max);
        let could_be = most * counts.len() as f64;
        ensure!(could_be > 0.0, "intervals without work");
        Ok(100.0 * (could_be - counts.iter().sum::<f64>()) / could_be)
    }
}

const fn figure(
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    value: fn(&Seen) -> Result<f64>,
) -> Figure {
    Figure {
        name,
        what,
        unit,
        value,
    }
}

const fn job(
    program: &'static str,
    full: &'static [&'static str],
    tiny: &'static [&'static str],
    memory: &'static str,
    figures: &'static [Figure],
) -> Job {
    Job {
        program,
        full,
        tiny,
        cores: 1,
        memory,
        figures,
    }
}

/// All, in the order of the report.
pub const JOBS: &[Job] = &[
    job(
        "stream",
        &["20000000", "10"],
        &["20000", "2"],
        "640M",
        &[
            figure("stream_copy_mb_s", "STREAM copy", "MB/s", |seen| {
                seen.number("copy_MB_s")
            }),
            figure("stream_scale_mb_s", "STREAM scale", "MB/s", |seen| {
                seen.number("scale_MB_s")
            }),
            figure("stream_add_mb_s", "STREAM add", "MB/s", |seen| {
                seen.number("add_MB_s")
            }),
            figure("stream_triad_mb_s", "STREAM triad", "MB/s", |seen| {
                seen.number("triad_MB_s")
            }),
        ],
    ),
    job(
        "random",
        &["256", "4194304", "large"],
        &["2", "2048", "large"],
        "320M",
        &[
            figure(
                "latency_large_ns",
                "memory latency, large pages requested",
                "ns",
                |seen| seen.nanoseconds("chase_ticks"),
            ),
            figure(
                "update_large_ns",
                "random update, large pages requested",
                "ns",
                |seen| seen.nanoseconds("update_ticks"),
            ),
        ],
    ),
    job(
        "random",
        &["256", "4194304", "small"],
        &["2", "2048", "small"],
        "320M",
        &[figure(
            "latency_small_ns",
            "memory latency, small pages requested",
            "ns",
            |seen| seen.nanoseconds("chase_ticks"),
        )],
    ),
    job(
        "fwq",
        &["20000", "50000"],
        &["50", "2000"],
        "64M",
        &[
            figure("fwq_longest_us", "FWQ, longest detour", "us", |seen| {
                seen.microseconds("longest_detour_ticks")
            }),
            figure(
                "fwq_lost_percent",
                "FWQ, time lost",
                "%",
                Seen::lost_by_quanta_of_work,
            ),
        ],
    ),
    job(
        "ftq",
        &["20000", "100000"],
        &["50", "100000"],
        "64M",
        &[
            figure("ftq_longest_us", "FTQ, longest detour", "us", |seen| {
                seen.microseconds("longest_detour_ticks")
            }),
            figure(
                "ftq_lost_percent",
                "FTQ, work lost",
                "%",
                Seen::lost_by_quanta_of_time,
            ),
        ],
    ),
    job(
        "selfish",
        &["50000000"],
        &["20000"],
        "64M",
        &[
            figure(
                "selfish_detours_per_s",
                "selfish, detours a second",
                "1/s",
                |seen| Ok(seen.number("detours")? / seen.number("seconds")?),
            ),
            figure(
                "selfish_longest_us",
                "selfish, longest detour",
                "us",
                |seen| seen.microseconds("longest_detour_ticks"),
            ),
        ],
    ),
    job(
        "calls",
        &["1000000"],
        &["500"],
        "64M",
        &[
            figure("getpid_ns", "null call (getpid)", "ns", |seen| {
                seen.nanoseconds("getpid")
            }),
            figure(
                "clock_gettime_ns",
                "clock_gettime, as a call",
                "ns",
                |seen| seen.nanoseconds("clock_gettime"),
            ),
        ],
    ),
    job(
        "lseek",
        &["{}", "20000"],
        &["{}", "50"],
        "64M",
        &[
            figure(
                "lseek_median_ns",
                "call that Linux answers (lseek), median",
                "ns",
                |seen| seen.nanoseconds("median_ticks"),
            ),
            figure(
                "lseek_p99_ns",
                "call that Linux answers, 99th percentile",
                "ns",
                |seen| seen.nanoseconds("p99_ticks"),
            ),
        ],
    ),
    job(
        "signal",
        &["20000"],
        &["50"],
        "64M",
        &[figure(
            "signal_ns",
            "signal to oneself, handler, and back",
            "ns",
            |seen| seen.nanoseconds("self_ticks"),
        )],
    ),
    job(
        "mappings",
        &["1000"],
        &["3"],
        "64M",
        &[
            figure("map_4k_ns", "mmap and munmap of 4 KiB", "ns", |seen| {
                seen.nanoseconds("map_4K")
            }),
            figure(
                "map_touch_4k_ns",
                "mmap, touch and munmap of 4 KiB",
                "ns",
                |seen| seen.nanoseconds("map_touch_4K"),
            ),
            figure("map_16m_ns", "mmap and munmap of 16 MiB", "ns", |seen| {
                seen.nanoseconds("map_16M")
            }),
            figure(
                "map_touch_16m_us",
                "mmap, touch and munmap of 16 MiB",
                "us",
                |seen| seen.microseconds("map_touch_16M"),
            ),
        ],
    ),
    Job {
        cores: 2,
        ..job(
            "round_trip",
            &["20000"],
            &["50"],
            "64M",
            &[figure(
                "futex_round_trip_ns",
                "futex to another core and back",
                "ns",
                |seen| seen.nanoseconds("round_trip_ticks"),
            )],
        )
    },
    job(
        "first",
        &[],
        &[],
        "64M",
        &[
            figure(
                "first_output_ms",
                "from starting yod (Linux: the program) to its output",
                "ms",
                |seen| Ok(1e3 * seen.first_output_s.context("no output")?),
            ),
            figure(
                "start_to_end_ms",
                "from starting yod (Linux: the program) to the end",
                "ms",
                |seen| Ok(1e3 * seen.seconds),
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(stdout: &str) -> Seen {
        Seen {
            stdout: stdout.to_owned(),
            first_output_s: None,
            seconds: 0.5,
            tsc_hz: 2e9,
        }
    }

    #[test]
    fn ticks_become_time() {
        let seen = seen("self_ticks 300\n");
        assert_eq!(seen.nanoseconds("self_ticks").expect("one"), 150.0);
        assert_eq!(seen.microseconds("self_ticks").expect("one"), 0.15);
        assert!(seen.number("other").is_err());
    }

    #[test]
    fn what_is_lost_is_a_share() {
        let work = seen("series fwq_ticks 10 10 20\n").lost_by_quanta_of_work();
        assert_eq!(work.expect("a share"), 25.0);
        let time = seen("series ftq_count 4 4 4 0\n").lost_by_quanta_of_time();
        assert_eq!(time.expect("a share"), 25.0);
        assert!(seen("").lost_by_quanta_of_time().is_err());
    }

    /// The source of each program is there, and each has tiny arguments of its own.
    #[test]
    fn jobs_are_programs() {
        for job in JOBS {
            assert!(crate::programs::source_of(job.program).is_file());
            assert_eq!(job.full.len(), job.tiny.len(), "{}", job.program);
            assert!(!job.figures.is_empty() && job.cores > 0);
        }
    }
}
