//! What the texts of /proc say of sizes.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use abi::map::PAGE;

use crate::call::own;
use crate::rank::Rank;

/// Bytes of the rank's memory, and what else of it is unknown to Linux.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The partition.
    pub partition: u64,
    mapped: u64,
    mapped_peak: u64,
    /// What is used of it.
    pub used: u64,
    used_peak: u64,
    locked: u64,
    /// How many threads there are.
    threads: usize,
}

impl Sizes {
    /// Those of the rank as of now.
    pub fn of(rank: &Rank) -> Sizes {
        let node = &rank.words().area.node;
        let (mapped, mapped_peak) = {
            let memory = rank.memory();
            let regions = memory.regions();
            let mapped = regions.mapped_bytes() + memory.reservations().bytes();
            (mapped, regions.peak_bytes().max(mapped))
        };
        let used = node.used_bytes.load();
        let used_peak = node.peak_bytes.load().max(used);
        Sizes {
            partition: node.partition[1].load(),
            // What is used and no region's, such as page tables, is not mapped here.
            mapped: used.max(mapped),
            mapped_peak: used_peak.max(mapped_peak),
            used,
            used_peak,
            locked: node.locked_bytes.load(),
            threads: rank.tids().count(),
        }
    }

    /// size resident shared text lib data dt
    pub fn statm(self) -> String {
        let (mapped, used) = (self.mapped / PAGE, self.used / PAGE);
        format!("{mapped} {used} 0 0 0 {mapped} 0\n")
    }

    /// One line of fields; the second is a name in parentheses that may hold anything.
    pub fn stat(self, linux: &str) -> String {
        // Numbers of fields, counted from 1 as proc(5) does.
        /// Faults: there are none.
        const FAULTS: RangeInclusive<usize> = 10..=13;
        /// Addresses, signals and the place that Linux waits in are the proxy's: 0, as for who may not see them.
        const CODE_TO_WCHAN: RangeInclusive<usize> = 26..=35;
        const DATA_TO_ENV: RangeInclusive<usize> = 45..=51;
        const NUM_THREADS: usize = 20;
        const VSIZE: usize = 23;
        const RSS: usize = 24;
        let Some((name, fields)) = linux.rsplit_once(')') else {
            return String::new();
        };
        let mut text = format!("{name})");
        for (number, field) in (3..).zip(fields.split_whitespace()) {
            let _ = match number {
                NUM_THREADS => write!(text, " {}", self.threads),
                VSIZE => write!(text, " {}", self.mapped),
                RSS => write!(text, " {}", self.used / PAGE),
                n if [FAULTS, CODE_TO_WCHAN, DATA_TO_ENV]
                    .iter()
                    .any(|r| r.contains(&n)) =>
                {
                    write!(text, " 0")
                }
                _ => write!(text, " {field}"),
            };
        }
        text + "\n"
    }

    /// Linux's lines without those about the proxy's signals, which only the node has of the rank.
    pub fn status(self, linux: &str, [first, count]: [u64; 2]) -> String {
        let mut text = String::with_capacity(linux.len());
        for line in linux.lines() {
            let Some((key, _)) = line.split_once(':') else {
                continue;
            };
            let kib = |bytes: u64| format!("{:>8} kB", bytes / 1024);
            let value = match key {
                "VmPeak" => kib(self.mapped_peak),
                "VmSize" => kib(self.mapped),
                "VmHWM" => kib(self.used_peak),
                "VmRSS" | "RssAnon" | "VmData" => kib(self.used),
                "VmLck" => kib(self.locked),
                "VmPin" | "VmStk" | "VmExe" | "VmLib" | "VmPTE" | "VmSwap" | "RssFile"
                | "RssShmem" | "HugetlbPages" => kib(0),
                "Threads" => self.threads.to_string(),
                "NoNewPrivs" => u8::from(own::NO_NEW_PRIVS.load(Ordering::Relaxed)).to_string(),
                "Seccomp" | "Seccomp_filters" => "0".into(),
                "Cpus_allowed_list" if count == 1 => first.to_string(),
                "Cpus_allowed_list" => format!("{first}-{}", first + count.max(1) - 1),
                "SigQ"
                | "SigPnd"
                | "ShdPnd"
                | "SigBlk"
                | "SigIgn"
                | "SigCgt"
                | "Cpus_allowed"
                | "voluntary_ctxt_switches"
                | "nonvoluntary_ctxt_switches" => continue,
                _ => {
                    let _ = writeln!(text, "{line}");
                    continue;
                }
            };
            let _ = writeln!(text, "{key}:\t{value}");
        }
        text
    }

    /// All memory is the partition, and what is used of it belongs to the program: no caches, nothing swapped.
    pub fn meminfo(self, linux: &str) -> String {
        let mut text = String::with_capacity(linux.len());
        for line in linux.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let bytes = match key {
                "MemTotal" | "CommitLimit" => self.partition,
                "MemFree" | "MemAvailable" => self.partition.saturating_sub(self.used),
                "Active" | "Active(anon)" | "AnonPages" | "Committed_AS" => self.used,
                _ => 0,
            };
            let _ = match value.trim_start().split_once(' ') {
                Some(_) if key == "Hugepagesize" => writeln!(text, "{line}"),
                Some((_, unit)) => {
                    writeln!(text, "{:<16}{:>8} {unit}", format!("{key}:"), bytes / 1024)
                }
                None => writeln!(text, "{:<16}{:>8}", format!("{key}:"), 0),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_shows_the_ranks_sizes() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let sizes = Sizes {
            partition: 16384,
            mapped: 8192,
            mapped_peak: 8192,
            used: 4096,
            used_peak: 4096,
            locked: 0,
            threads: 1,
        };
        let text = sizes.stat(&format!("7 (a )b) {}\n", fields.join(" ")));
        assert!(text.starts_with("7 (a )b) 3 4 5 6 7 8 9 0 0 0 0 14 "));
        assert!(text.contains(" 19 1 21 22 8192 1 25 0 0 ") && text.ends_with(" 0 52\n"));
    }

    #[test]
    fn status_shows_the_ranks_sizes() {
        let sizes = Sizes {
            partition: 16384 * 1024,
            mapped: 8192 * 1024,
            mapped_peak: 9000 * 1024,
            used: 4096 * 1024,
            used_peak: 5000 * 1024,
            locked: 1000 * 1024,
            threads: 3,
        };
        let linux = "Name:\ta.out\nVmPeak:\t  999 kB\nVmHWM:\t 1 kB\nVmRSS:\t 1 kB\nVmLck:\t 0 kB\nThreads:\t2\n\
            SigBlk:\tffffffffffffffff\nNoNewPrivs:\t1\nCpus_allowed_list:\t0-63\n";
        assert_eq!(
            sizes.status(linux, [2, 2]),
            "Name:\ta.out\nVmPeak:\t    9000 kB\nVmHWM:\t    5000 kB\nVmRSS:\t    4096 kB\nVmLck:\t    1000 kB\nThreads:\t3\n\
            NoNewPrivs:\t0\nCpus_allowed_list:\t2-3\n"
        );
        assert_eq!(sizes.statm(), "2048 1024 0 0 0 2048 0\n");
        let linux = "MemTotal:       24000000 kB\nMemFree:         9000000 kB\nCached:           999999 kB\n\
            HugePages_Total:      64\nHugepagesize:       2048 kB\n";
        assert_eq!(
            sizes.meminfo(linux),
            "MemTotal:          16384 kB\nMemFree:           12288 kB\nCached:                0 kB\n\
            HugePages_Total:       0\nHugepagesize:       2048 kB\n"
        );
    }
}
