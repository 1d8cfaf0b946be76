//! Texts about the rank's regions. All that is mapped with access is in memory and counts as written, and as the rank's alone but for
//! whose a mapping is (MAP_SHARED). Of what is mapped without access nothing is.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use abi::map::{PAGE, VDSO_AREA};

use crate::files::{File, Files};
use crate::memory::Memory;
use crate::regions::Regions;
use crate::reservations::Reservations;
use crate::shared::RankWords;

/// Where the vDSO begins: behind the clock page.
const VDSO: u64 = VDSO_AREA + PAGE;

/// What lies without a gap, has one access and shows one file, if any: a line of /proc/self/maps.
pub struct Line<'a> {
    /// First byte.
    pub start: u64,
    /// End.
    pub end: u64,
    /// May be read, written, executed.
    pub access: [bool; 3],
    /// What is stored there reaches a file.
    pub shared: bool,
    heap: bool,
    stack: bool,
    /// The file, and the offset in it.
    pub file: Option<(&'a File, u64)>,
}

/// Where the areas are that have names.
#[derive(Clone, Copy)]
pub struct Named {
    /// First byte of the heap.
    pub heap_start: u64,
    /// End of the main thread's stack.
    pub stack_top: u64,
}

impl Named {
    /// Those of the program that `words` are of.
    pub fn of(words: &RankWords) -> Named {
        Named {
            heap_start: words.area.node.heap_start.load(),
            stack_top: words.areas().stack_top(),
        }
    }
}

/// The lines of a rank's memory.
pub struct Lines<'a>(Vec<Line<'a>>);

impl<'a> Lines<'a> {
    /// Those of `memory`.
    pub fn of(memory: &'a Memory, named: Named) -> Lines<'a> {
        let mut lines = Lines::new(memory.regions(), &memory.files, named);
        lines.add_reservations(memory.reservations(), &memory.files);
        lines
    }

    /// In the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Line<'a>> {
        self.0.iter()
    }

    fn new(regions: &Regions, files: &'a Files, named: Named) -> Lines<'a> {
        let Named {
            heap_start,
            stack_top,
        } = named;
        let mut lines = Vec::new();
        let (mut start, mut heap_end) = (0, heap_start);
        for region in regions.iter() {
            start = start.max(region.start);
            while start < region.end {
                let (file, until) = files.at(start);
                let mut end = until.min(regions.alike_until(start));
                if (start + 1..end).contains(&heap_start) {
                    end = heap_start;
                }
                // The heap is what follows its beginning without a gap.
                let heap = start == heap_end && file.is_none();
                if heap {
                    heap_end = end;
                }
                lines.push(Line {
                    start,
                    end,
                    access: region.access(),
                    shared: region.shared,
                    heap,
                    stack: end == stack_top,
                    file,
                });
                start = end;
            }
        }
        Lines(lines)
    }

    /// Adds what is mapped without access, between the others.
    fn add_reservations(&mut self, reservations: &Reservations, files: &'a Files) {
        for reservation in reservations.iter() {
            let mut start = reservation.start;
            while start < reservation.end {
                let (file, until) = files.at(start);
                let end = until.min(reservation.end);
                self.0.push(Line {
                    start,
                    end,
                    access: [false; 3],
                    shared: reservation.shared,
                    heap: false,
                    stack: false,
                    file,
                });
                start = end;
            }
        }
        self.0.sort_by_key(|line| line.start);
    }
}

/// /proc/self/maps.
pub fn maps(lines: &Lines<'_>) -> Vec<u8> {
    lines.0.iter().flat_map(Line::text).collect()
}

/// /proc/self/smaps.
pub fn smaps(lines: &Lines<'_>) -> Vec<u8> {
    let text = |line: &Line<'_>| [line.text(), line.details().into_bytes()].concat();
    lines.0.iter().flat_map(text).collect()
}

/// /proc/self/smaps_rollup.
pub fn rollup(regions: &Regions) -> String {
    let start = regions.iter().next().map_or(0, |region| region.start);
    let end = regions.iter().next_back().map_or(0, |region| region.end);
    let all = regions.iter().map(|region| region.end - region.start).sum();
    let head = format!("{start:08x}-{end:08x} ---p 00000000 00:00 0");
    format!("{head:<73}[rollup]\n{}", in_memory(all))
}

/// /proc/self/numa_maps.
pub fn numa_maps(lines: &Lines<'_>) -> Vec<u8> {
    lines.0.iter().flat_map(Line::on_node).collect()
}

impl Line<'_> {
    /// As Linux aligns it.
    fn text(&self) -> Vec<u8> {
        let (start, end) = (self.start, self.end);
        let [read, write, exec] = self.shown(['r', 'w', 'x']);
        let place = match self.file {
            Some((file, offset)) => {
                let ((major, minor), inode) = (file.device, file.inode);
                format!("{offset:08x} {major:02x}:{minor:02x} {inode}")
            }
            None => "00000000 00:00 0".into(),
        };
        let name = self.name();
        let whose = if self.shared { 's' } else { 'p' };
        let mut line = format!("{start:08x}-{end:08x} {read}{write}{exec}{whose} {place} ");
        if !name.is_empty() {
            line = format!("{line:<73}");
        }
        [line.as_bytes(), name, b"\n"].concat()
    }

    fn is_in_memory(&self) -> bool {
        self.access.contains(&true)
    }

    /// What it is called; empty without a name.
    pub fn name(&self) -> &[u8] {
        match self.file {
            Some((file, _)) => file.path.as_bytes(),
            None if self.heap => b"[heap]",
            None if self.stack => b"[stack]",
            None if self.start == VDSO_AREA => b"[vvar]",
            None if self.start == VDSO => b"[vdso]",
            None => b"",
        }
    }

    /// A letter or none for reading, writing, executing.
    fn shown(&self, letters: [char; 3]) -> [char; 3] {
        std::array::from_fn(|i| if self.access[i] { letters[i] } else { '-' })
    }

    fn on_node(&self) -> Vec<u8> {
        let (start, pages) = (self.start, (self.end - self.start) / PAGE);
        let kib = PAGE / 1024;
        let mut line = format!("{start:08x} default").into_bytes();
        match self.file {
            Some((file, _)) => line.extend([b" file=", file.path.as_bytes()].concat()),
            None if self.heap => line.extend(b" heap"),
            None if self.stack => line.extend(b" stack"),
            None => {}
        }
        if self.is_in_memory() {
            let counts = format!(" anon={pages} dirty={pages} N0={pages} kernelpagesize_kB={kib}");
            line.extend(counts.into_bytes());
        }
        line.push(b'\n');
        line
    }

    fn details(&self) -> String {
        let bytes = self.end - self.start;
        let mut text = String::new();
        for (name, bytes) in [
            ("Size", bytes),
            ("KernelPageSize", PAGE),
            ("MMUPageSize", PAGE),
        ] {
            amount(&mut text, name, bytes);
        }
        text += &in_memory(if self.is_in_memory() { bytes } else { 0 });
        let [read, write, exec] = self.access;
        let access = [read, write, exec, self.shared];
        let flags = ["rd ", "wr ", "ex ", "sh "].iter().zip(access);
        let flags: String = flags
            .filter(|(_, set)| *set)
            .map(|(flag, _)| *flag)
            .collect();
        let _ = writeln!(text, "VmFlags: {flags}mr mw me lo ");
        text
    }
}

fn in_memory(bytes: u64) -> String {
    let mut text = String::new();
    for (name, bytes) in [
        ("Rss", bytes),
        ("Pss", bytes),
        ("Pss_Dirty", bytes),
        ("Shared_Clean", 0),
        ("Shared_Dirty", 0),
        ("Private_Clean", 0),
        ("Private_Dirty", bytes),
        ("Referenced", bytes),
        ("Anonymous", bytes),
        ("AnonHugePages", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", bytes),
    ] {
        amount(&mut text, name, bytes);
    }
    text
}

fn amount(text: &mut String, name: &str, bytes: u64) {
    let _ = writeln!(text, "{:<16}{:>8} kB", format!("{name}:"), bytes / 1024);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use abi::map::STACK_TOP;

    use super::*;
    use crate::regions::Region;
    use crate::reservations::Reservation;

    fn named(heap_start: u64) -> Named {
        Named {
            heap_start,
            stack_top: STACK_TOP,
        }
    }

    fn regions() -> Regions {
        let mut regions = Regions::default();
        for (start, end) in [(0x40_0000, 0x40_1000), (STACK_TOP - 0x2000, STACK_TOP)] {
            regions.map(Region {
                start,
                end,
                gpa: start,
                read: true,
                write: true,
                exec: start == 0x40_0000,
                shared: false,
                laid: false,
            });
        }
        regions
    }

    #[test]
    fn maps_has_a_line_per_region() {
        let mut regions = regions();
        // A region whose memory is in several pieces is one nevertheless.
        regions.map(Region {
            start: STACK_TOP - 0x3000,
            end: STACK_TOP - 0x2000,
            gpa: 0,
            read: true,
            write: true,
            exec: false,
            shared: false,
            laid: false,
        });
        regions.map(Region {
            start: 0x60_0000,
            end: 0x60_1000,
            gpa: 0,
            read: true,
            write: false,
            exec: false,
            shared: true,
            laid: false,
        });
        regions.map(Region {
            start: 0x50_0000,
            end: 0x50_4000,
            gpa: 0x50_0000,
            read: true,
            write: true,
            exec: false,
            shared: false,
            laid: false,
        });
        let mut files = Files::default();
        let passwd = std::fs::File::open("/etc/passwd").expect("readable");
        let number = files.number(passwd.as_fd()).expect("a number");
        files.place(0x50_1000, 0x50_3000, number, 0x7000);
        let text = String::from_utf8(maps(&Lines::new(&regions, &files, named(0x50_3000))))
            .expect("ASCII");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4], "00600000-00601000 r--s 00000000 00:00 0 ");
        assert!(lines[2].starts_with("00501000-00503000 rw-p 00007000 "));
        assert!(lines[2].ends_with(" /etc/passwd") && lines[2].find('/') == Some(73));
        assert_eq!(
            lines[3],
            format!("{:<73}[heap]", "00503000-00504000 rw-p 00000000 00:00 0 ")
        );
        assert_eq!(lines[0], "00400000-00401000 rwxp 00000000 00:00 0 ");
        assert!(lines[5].starts_with("7fffdfd000-7fffe00000 rw-p 00000000 00:00 0 "));
        assert!(lines[5].ends_with(" [stack]"));
    }

    /// Once there were no lines for what is mapped without access.
    #[test]
    fn reservations_have_lines() {
        let (regions, mut files) = (regions(), Files::default());
        let passwd = std::fs::File::open("/etc/passwd").expect("readable");
        let number = files.number(passwd.as_fd()).expect("a number");
        files.place(0x60_1000, 0x60_2000, number, 0);
        let mut reservations = Reservations::default();
        for (start, shared) in [(0x60_0000, false), (0x50_0000, true)] {
            let end = start + 0x3000;
            reservations.add(Reservation { start, end, shared });
        }
        let mut lines = Lines::new(&regions, &files, named(0));
        lines.add_reservations(&reservations, &files);
        let text = String::from_utf8(maps(&lines)).expect("ASCII");
        let text: Vec<_> = text.lines().collect();
        assert_eq!(text.len(), 6);
        assert_eq!(text[1], "00500000-00503000 ---s 00000000 00:00 0 ");
        assert_eq!(text[2], "00600000-00601000 ---p 00000000 00:00 0 ");
        assert!(
            text[3].starts_with("00601000-00602000 ---p 00000000 ")
                && text[3].ends_with(" /etc/passwd")
        );
        let text = String::from_utf8(numa_maps(&lines)).expect("ASCII");
        assert!(text.contains("\n00500000 default\n"), "{text}");
        let text = String::from_utf8(smaps(&lines)).expect("ASCII");
        assert_eq!(text.matches("Rss:                   0 kB\n").count(), 4);
    }

    #[test]
    fn all_is_in_memory() {
        let files = Files::default();
        let regions = regions();
        let lines = Lines::new(&regions, &files, named(0x40_0000));
        let text = String::from_utf8(smaps(&lines)).expect("ASCII");
        assert_eq!(text.matches("Rss: ").count(), 2);
        assert!(text.contains("Private_Dirty:         8 kB\n"), "{text}");
        assert!(text.contains("Locked:                8 kB\n"), "{text}");
        assert!(rollup(&regions).contains("[rollup]\nRss:                  12 kB\n"));
        let text = String::from_utf8(numa_maps(&lines)).expect("ASCII");
        assert!(
            text.starts_with("00400000 default heap anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n")
        );
    }
}
