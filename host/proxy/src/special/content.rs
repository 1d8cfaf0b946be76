//! The texts that are made for the rank. See proc(5) for their formats.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use abi::map::PAGE;
use wire::word::Word;
use zerocopy::IntoBytes;

use super::limits;
use super::machine;
use super::place::{Place, Whose};
use super::regions::{self, Lines};
use crate::Program;
use crate::call::own;
use crate::memory::RankMemory;
use crate::rank::Rank;

/// A file whose text is made for the rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// Regions.
    Maps,
    /// The same with what is in memory of them: all.
    Smaps,
    /// The sums of that.
    SmapsRollup,
    /// The same by memory of NUMA domains.
    NumaMaps,
    /// Sizes in pages.
    Statm,
    /// Linux's, with the rank's sizes.
    Status,
    /// The same on one line.
    Stat,
    /// Arguments.
    Cmdline,
    /// Environment.
    Environ,
    /// The auxiliary vector.
    Auxv,
    /// Resource limits.
    Limits,
    /// Linux's, with the rank's memory as the machine's.
    Meminfo,
    /// Linux's, with the node's cores.
    Cpuinfo,
    /// What was counted since the machine started: here nothing.
    SystemStat,
    /// How many are ready to run.
    Loadavg,
    /// Whose memory a process may access, where the host has Yama: ranks that of each other.
    PtraceScope,
}

/// Names in the process's directory.
const OF_RANK: &[(&str, File)] = &[
    ("maps", File::Maps),
    ("smaps", File::Smaps),
    ("smaps_rollup", File::SmapsRollup),
    ("numa_maps", File::NumaMaps),
    ("statm", File::Statm),
    ("status", File::Status),
    ("stat", File::Stat),
    ("cmdline", File::Cmdline),
    ("environ", File::Environ),
    ("auxv", File::Auxv),
    ("limits", File::Limits),
];
/// Names in the procfs itself.
const OF_SYSTEM: &[(&str, File)] = &[
    ("meminfo", File::Meminfo),
    ("cpuinfo", File::Cpuinfo),
    ("stat", File::SystemStat),
    ("loadavg", File::Loadavg),
    ("sys/kernel/yama/ptrace_scope", File::PtraceScope),
];

impl File {
    /// The file at a place.
    pub fn at(place: &Place) -> Option<File> {
        let names = match place.whose {
            Whose::Rank => OF_RANK,
            Whose::System => OF_SYSTEM,
            _ => return None,
        };
        let found = names.iter().find(|(name, _)| *name == place.inside);
        found.map(|(_, file)| *file)
    }

    /// Its path in a procfs, in the process's directory or in a thread's.
    pub fn path(self, thread: Option<u32>) -> String {
        let find = |names: &[(&'static str, File)]| {
            let found = names.iter().find(|(_, file)| *file == self);
            found.map(|(name, _)| *name)
        };
        match (find(OF_RANK), thread) {
            (Some(name), Some(tid)) => format!("self/task/{tid}/{name}"),
            (Some(name), None) => format!("self/{name}"),
            (None, _) => find(OF_SYSTEM).unwrap_or_default().to_owned(),
        }
    }

    /// The file with a path of [`File::path`], and the thread that it is of.
    pub fn of_path(path: &str) -> Option<(File, Option<u32>)> {
        let (names, name, thread) = match path.strip_prefix("self/") {
            Some(of_rank) => match of_rank.strip_prefix("task/") {
                Some(of_thread) => {
                    let (tid, name) = of_thread.split_once('/')?;
                    (OF_RANK, name, Some(tid.parse().ok()?))
                }
                None => (OF_RANK, of_rank, None),
            },
            None => (OF_SYSTEM, path, None),
        };
        let found = names.iter().find(|(known, _)| *known == name);
        found.map(|(_, file)| (*file, thread))
    }

    /// Its text as of now, in the process's directory or in a thread's.
    pub fn text(self, rank: &Rank, thread: Option<u32>) -> Vec<u8> {
        let sizes = Sizes::of(rank);
        let node = &rank.words.area.node;
        let heap = node.heap_start.load();
        let node_cores = rank.core_doorbells.len();
        let own = |name: &str| match thread {
            Some(tid) => format!("/proc/self/task/{tid}/{name}"),
            None => format!("/proc/self/{name}"),
        };
        let linux = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let text = match self {
            File::Maps => return regions::maps(&Lines::of(&rank.memory(), heap)),
            File::Smaps => return regions::smaps(&Lines::of(&rank.memory(), heap)),
            File::NumaMaps => return regions::numa_maps(&Lines::of(&rank.memory(), heap)),
            File::SmapsRollup => regions::rollup(rank.memory().regions()),
            File::Statm => sizes.statm(),
            File::Status => sizes.status(&linux(&own("status")), cores(rank)),
            File::Stat => sizes.stat(&linux(&own("stat"))),
            File::Meminfo => sizes.meminfo(&linux("/proc/meminfo")),
            File::Cpuinfo => {
                let features = node.features.each_ref().map(Word::load);
                machine::cpuinfo(&linux("/proc/cpuinfo"), node_cores, &features)
            }
            File::SystemStat => machine::stat(&linux("/proc/stat"), node_cores),
            File::Loadavg => machine::loadavg(rank.pid),
            File::PtraceScope => machine::ptrace_scope(),
            File::Cmdline => return joined(&rank.program(), true),
            File::Environ => return joined(&rank.program(), false),
            File::Auxv => return auxv(rank, rank).unwrap_or_default(),
            File::Limits => limits::text(&linux(&own("limits")), |resource| rank.limit(resource)),
        };
        text.into_bytes()
    }
}

/// The memory of NUMA domain 0, the only one.
pub fn node_meminfo(rank: &Rank) -> String {
    let Sizes {
        partition, used, ..
    } = Sizes::of(rank);
    let [total, free, used] =
        [partition, partition.saturating_sub(used), used].map(|bytes| bytes / 1024);
    [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemUsed", used),
        ("AnonPages", used),
    ]
    .map(|(name, kib)| format!("Node 0 {:<15}{kib:>8} kB\n", format!("{name}:")))
    .concat()
}

/// Argument or environment strings, each with its NUL.
fn joined(program: &Program, arguments: bool) -> Vec<u8> {
    let strings = if arguments {
        &program.argv
    } else {
        &program.env
    };
    strings
        .iter()
        .flat_map(|string| string.as_bytes_with_nul())
        .copied()
        .collect()
}

/// The auxiliary vector that the program was started with, from where it was put: between the strings and `argc`.
pub fn auxv(rank: &Rank, memory: &impl RankMemory) -> Option<Vec<u8>> {
    /// More than the vector, the random bytes and the platform's name take.
    const MOST_BYTES: u64 = 1024;
    let strings = rank.strings_at.load(Ordering::Relaxed);
    let program = rank.program();
    let (argc, envc) = (program.argv.len(), program.env.len());
    let pointers = argc + 1 + envc + 1;
    let start = (strings & !7).checked_sub(8 * (1 + pointers as u64) + MOST_BYTES)?;
    let mut words = vec![0u64; (strings as usize / 8) - (start as usize / 8)];
    memory.read(start, words.as_mut_bytes()).ok()?;
    let begins = |pair: &[u64]| pair == [argc as u64, strings];
    let first = words.windows(2).position(begins)? + 1 + pointers;
    let pairs = words.get(first..)?.chunks_exact(2);
    let last = pairs.clone().position(|pair| pair[0] == 0)?; // AT_NULL
    Some(
        pairs
            .take(last + 1)
            .flatten()
            .flat_map(|word| word.to_ne_bytes())
            .collect(),
    )
}

/// First core of the rank, and how many it has.
fn cores(rank: &Rank) -> [u64; 2] {
    let cpus = &rank.words.area.node.cpus;
    [cpus[0].load(), cpus[1].load()]
}

/// Bytes of the rank's memory, and what else of it is unknown to Linux.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    partition: u64,
    mapped: u64,
    mapped_peak: u64,
    used: u64,
    used_peak: u64,
    /// How many threads there are.
    threads: usize,
}

impl Sizes {
    fn of(rank: &Rank) -> Sizes {
        let node = &rank.words.area.node;
        let (mapped, mapped_peak) = {
            let memory = rank.memory();
            let regions = memory.regions();
            (regions.mapped_bytes(), regions.peak_bytes())
        };
        let used = node.used_bytes.load();
        let used_peak = node.peak_bytes.load().max(used);
        Sizes {
            partition: node.partition[1].load(),
            // What is used but has no access, such as page tables, is not mapped here.
            mapped: used.max(mapped),
            mapped_peak: used_peak.max(mapped_peak),
            used,
            used_peak,
            threads: rank.tids().count(),
        }
    }

    /// size resident shared text lib data dt
    fn statm(self) -> String {
        let (mapped, used) = (self.mapped / PAGE, self.used / PAGE);
        format!("{mapped} {used} 0 0 0 {mapped} 0\n")
    }

    /// One line of fields; the second is a name in parentheses that may hold anything.
    fn stat(self, linux: &str) -> String {
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
    fn status(self, linux: &str, [first, count]: [u64; 2]) -> String {
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
                // None of it is ever paged out, whether the program has locked it or not.
                "VmRSS" | "RssAnon" | "VmData" | "VmLck" => kib(self.used),
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
    fn meminfo(self, linux: &str) -> String {
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

    /// Where Yama's scope is 1, Open MPI and UCX took the host's word and copied long messages twice.
    #[test]
    fn the_hosts_yama_has_no_say_between_ranks() {
        let place = Place {
            whose: Whose::System,
            thread: None,
            inside: "sys/kernel/yama/ptrace_scope".into(),
        };
        assert_eq!(File::at(&place), Some(File::PtraceScope));
        assert_eq!(machine::ptrace_scope(), "0\n");
    }

    #[test]
    fn stat_shows_the_ranks_sizes() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let sizes = Sizes {
            partition: 16384,
            mapped: 8192,
            mapped_peak: 8192,
            used: 4096,
            used_peak: 4096,
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
            threads: 3,
        };
        let linux = "Name:\ta.out\nVmPeak:\t  999 kB\nVmHWM:\t 1 kB\nVmRSS:\t 1 kB\nVmLck:\t 0 kB\nThreads:\t2\n\
            SigBlk:\tffffffffffffffff\nNoNewPrivs:\t1\nCpus_allowed_list:\t0-63\n";
        assert_eq!(
            sizes.status(linux, [2, 2]),
            "Name:\ta.out\nVmPeak:\t    9000 kB\nVmHWM:\t    5000 kB\nVmRSS:\t    4096 kB\nVmLck:\t    4096 kB\nThreads:\t3\n\
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
