//! The texts that are made for the rank. See proc(5) for their formats.

use abi::ident;
use wire::word::Word;
use zerocopy::IntoBytes;

use super::limits;
use super::machine::{self, Processor};
use super::place::{Place, Whose};
use super::regions::{self, Lines, Named};
use super::sizes::Sizes;
use crate::Program;
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
    /// The kernel's release, as uname says it.
    Osrelease,
    /// Its version, as uname says it.
    KernelVersion,
    /// Both in one line.
    Version,
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
    ("sys/kernel/osrelease", File::Osrelease),
    ("sys/kernel/version", File::KernelVersion),
    ("version", File::Version),
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
        let node = &rank.words().area.node;
        let named = Named::of(rank.words());
        let node_cores = rank.link().cores();
        let own = |name: &str| match thread {
            Some(tid) => format!("/proc/self/task/{tid}/{name}"),
            None => format!("/proc/self/{name}"),
        };
        let linux = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let text = match self {
            File::Maps => return regions::maps(&Lines::of(&rank.memory(), named)),
            File::Smaps => return regions::smaps(&Lines::of(&rank.memory(), named)),
            File::NumaMaps => return regions::numa_maps(&Lines::of(&rank.memory(), named)),
            File::SmapsRollup => regions::rollup(rank.memory().regions()),
            File::Statm => sizes.statm(),
            File::Status => sizes.status(&linux(&own("status")), cores(rank)),
            File::Stat => sizes.stat(&linux(&own("stat"))),
            File::Meminfo => sizes.meminfo(&linux("/proc/meminfo")),
            File::Cpuinfo => {
                let processor = Processor {
                    features: node.features.each_ref().map(Word::load),
                    identity: node.identity.each_ref().map(Word::load),
                };
                machine::cpuinfo(&linux("/proc/cpuinfo"), node_cores, &processor)
            }
            File::SystemStat => machine::stat(&linux("/proc/stat"), node_cores),
            File::Loadavg => machine::loadavg(rank.pid()),
            File::Osrelease => format!("{}\n", ident::RELEASE),
            File::KernelVersion => format!("{}\n", ident::VERSION),
            File::Version => machine::version(),
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
    let strings = rank.running().strings_at();
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
    let cpus = &rank.words().area.node.cpus;
    [cpus[0].load(), cpus[1].load()]
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
}
