//! The texts that are made for the rank. See proc(5) for their formats.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use abi::map::{PAGE, STACK_TOP, VDSO_AREA};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use rustix::io;

use super::place::{Place, Whose};
use crate::Program;
use crate::rank::Rank;
use crate::regions::Regions;

/// A file of the process's directory, or of /proc itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// Regions.
    Maps,
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
    /// Linux's, with the rank's memory as the machine's. In /proc.
    Meminfo,
}

impl File {
    /// The file at a place.
    pub fn named(place: &Place) -> Option<File> {
        Some(match (place.whose, place.inside.as_str()) {
            (Whose::Rank, "maps") => File::Maps,
            (Whose::Rank, "statm") => File::Statm,
            (Whose::Rank, "status") => File::Status,
            (Whose::Rank, "stat") => File::Stat,
            (Whose::Rank, "cmdline") => File::Cmdline,
            (Whose::Rank, "environ") => File::Environ,
            (Whose::System, "meminfo") => File::Meminfo,
            _ => return None,
        })
    }
}

/// An open file with this text, at its beginning.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM.
pub fn open(rank: &Rank, file: File) -> io::Result<OwnedFd> {
    let sizes = Sizes::of(rank);
    let linux = |path| std::fs::read_to_string(path).unwrap_or_default();
    in_memory(&match file {
        File::Maps => maps(rank.memory().regions()).into_bytes(),
        File::Statm => sizes.statm().into_bytes(),
        File::Status => sizes.status(&linux("/proc/self/status")).into_bytes(),
        File::Stat => sizes.stat(&linux("/proc/self/stat")).into_bytes(),
        File::Cmdline => joined(&rank.program, true),
        File::Environ => joined(&rank.program, false),
        File::Meminfo => sizes.meminfo(&linux("/proc/meminfo")).into_bytes(),
    })
}

fn in_memory(text: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create("proc", MemfdFlags::CLOEXEC)?;
    let mut rest = text;
    while !rest.is_empty() {
        let written = io::write(&fd, rest)?;
        rest = &rest[written..];
    }
    seek(&fd, SeekFrom::Start(0))?;
    Ok(fd)
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

/// Whether a page may be executed the proxy does not know: no `x` is shown.
fn maps(regions: &Regions) -> String {
    let mut text = String::new();
    for region in regions.iter() {
        let name = match region {
            r if r.end == STACK_TOP => "[stack]",
            r if r.start == VDSO_AREA => "[vvar]",
            r if r.start == VDSO_AREA + PAGE => "[vdso]",
            _ => "",
        };
        let read = if region.read { 'r' } else { '-' };
        let write = if region.write { 'w' } else { '-' };
        let (start, end) = (region.start, region.end);
        let line = format!("{start:08x}-{end:08x} {read}{write}-p 00000000 00:00 0");
        let _ = if name.is_empty() {
            writeln!(text, "{line} ")
        } else {
            writeln!(text, "{line:<73}{name}")
        };
    }
    text
}

/// Bytes of the rank's memory.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    share: u64,
    mapped: u64,
    used: u64,
    peak: u64,
}

impl Sizes {
    fn of(rank: &Rank) -> Sizes {
        let node = &rank.words.area.node;
        let mapped = rank
            .memory()
            .regions()
            .iter()
            .map(|r| r.end - r.start)
            .sum();
        let used = node.used_bytes.load();
        Sizes {
            share: node.share[1].load(),
            mapped,
            used,
            peak: node.peak_bytes.load().max(used),
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
        const NUM_THREADS: usize = 20;
        const VSIZE: usize = 23;
        const RSS: usize = 24;
        let Some((name, fields)) = linux.rsplit_once(')') else {
            return String::new();
        };
        let mut text = format!("{name})");
        for (number, field) in (3..).zip(fields.split_whitespace()) {
            let _ = match number {
                NUM_THREADS => write!(text, " 1"),
                VSIZE => write!(text, " {}", self.mapped),
                RSS => write!(text, " {}", self.used / PAGE),
                _ => write!(text, " {field}"),
            };
        }
        text + "\n"
    }

    fn status(self, linux: &str) -> String {
        let mut text = String::with_capacity(linux.len());
        for line in linux.lines() {
            let kib = match line.split(':').next() {
                Some("VmPeak" | "VmSize") => Some(self.mapped),
                Some("VmHWM") => Some(self.peak),
                Some("VmRSS" | "RssAnon" | "VmData") => Some(self.used),
                _ => None,
            };
            let key = line.split(':').next().unwrap_or(line);
            let _ = match kib {
                Some(bytes) => writeln!(text, "{key}:\t{:>8} kB", bytes / 1024),
                None if key == "Threads" => writeln!(text, "Threads:\t1"),
                None => writeln!(text, "{line}"),
            };
        }
        text
    }

    /// All memory is the share, and what is used of it belongs to the program: no caches, nothing swapped.
    fn meminfo(self, linux: &str) -> String {
        let mut text = String::with_capacity(linux.len());
        for line in linux.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let bytes = match key {
                "MemTotal" | "CommitLimit" => self.share,
                "MemFree" | "MemAvailable" => self.share.saturating_sub(self.used),
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
    use crate::regions::Region;

    #[test]
    fn maps_has_a_line_per_region() {
        let mut regions = Regions::default();
        let region = |start, end| Region {
            start,
            end,
            gpa: start,
            read: true,
            write: true,
        };
        regions.map(region(0x40_0000, 0x40_1000));
        regions.map(region(STACK_TOP - 0x2000, STACK_TOP));
        let text = maps(&regions);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "00400000-00401000 rw-p 00000000 00:00 0 ");
        assert!(lines[1].starts_with("7fffdfe000-7fffe00000 rw-p 00000000 00:00 0 "));
        assert!(lines[1].ends_with(" [stack]"));
    }

    #[test]
    fn stat_shows_the_ranks_sizes() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let sizes = Sizes {
            share: 16384,
            mapped: 8192,
            used: 4096,
            peak: 4096,
        };
        let text = sizes.stat(&format!("7 (a )b) {}\n", fields.join(" ")));
        assert!(text.starts_with("7 (a )b) 3 4 5 "));
        assert!(text.contains(" 19 1 21 22 8192 1 25 ") && text.ends_with(" 52\n"));
    }

    #[test]
    fn status_shows_the_ranks_sizes() {
        let sizes = Sizes {
            share: 16384 * 1024,
            mapped: 8192 * 1024,
            used: 4096 * 1024,
            peak: 5000 * 1024,
        };
        let linux = "Name:\ta.out\nVmPeak:\t  999 kB\nVmHWM:\t 1 kB\nVmRSS:\t 1 kB\nThreads:\t2\n";
        assert_eq!(
            sizes.status(linux),
            "Name:\ta.out\nVmPeak:\t    8192 kB\nVmHWM:\t    5000 kB\nVmRSS:\t    4096 kB\nThreads:\t1\n"
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
