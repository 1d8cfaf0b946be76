//! The communication area of a running node, as a hostile host has it: every word, and whose it is.

use std::fs::{self, File, OpenOptions};
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;

use abi::map::COMM_BASE;
use wire::boot::{Config, Header};
use wire::child::Child;
use wire::children::Children;
use wire::clock::ClockPage;
use wire::info::InfoPage;
use wire::layout::Layout;
use wire::mappable::Mappable;
use wire::rank::{FromHost, FromNode, RankArea, state};
use wire::region_log::RegionLog;
use wire::signal::Mailbox;
use wire::stats::CpuStats;
use wire::thread::ThreadArea;
use wire::trace::TraceRing;
use zerocopy::FromBytes;

/// Where the area is when it does not fit below the kernel.
const LARGE_COMM_BASE: u64 = 16 << 20;
/// Threads of a rank whose areas are written to: the program has fewer.
const THREADS: usize = 8;
/// Of a thread's area: request and answer of its ship slot.
pub const REQUEST: u64 = 0;
pub const ANSWER: u64 = 128;
/// Bytes of a record's words that one side writes, in a line of their own: counts of rings and logs.
const LINE: u64 = 64;

/// Of an answer the word that says whether the proxy rings for it (`wire::ship::Slot`).
const BELL: u64 = ANSWER + 3 * 8;

/// Words that one side writes.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Offset in the area.
    pub start: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// The host's: the kernel reads them.
    pub is_hosts: bool,
    /// Whose they are; `None`: the node's as a whole.
    pub rank: Option<usize>,
}

/// The area of a node.
pub struct Area {
    file: File,
    base: u64,
    layout: Layout,
    config: Config,
}

impl Area {
    /// Through a process that has the node's memory, as QEMU has; `None`: it has not, or not yet.
    pub fn of(process: u32) -> Option<Area> {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let mut paths = descriptors.flatten().map(|entry| entry.path());
        let ram = paths.find(|path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:margay-ram"))
        })?;
        let file = OpenOptions::new().read(true).write(true).open(ram).ok()?;
        [COMM_BASE, LARGE_COMM_BASE].into_iter().find_map(|base| {
            let word = |offset: usize| read(&file, base + offset as u64);
            if word(offset_of!(Header, magic))? != wire::boot::MAGIC {
                return None;
            }
            let config = Config {
                ranks: word(offset_of!(Header, ranks))? as usize,
                cpus: word(offset_of!(Header, cpus))? as usize,
                flags: word(offset_of!(Header, flags))?,
                tsc_hz: word(offset_of!(Header, tsc_hz))?,
                partition_bytes: word(offset_of!(Header, partition_bytes))?,
                pool_bytes: word(offset_of!(Header, pool_bytes))?,
            };
            Some(Area {
                file: file.try_clone().ok()?,
                base,
                layout: Layout::new(&config),
                config,
            })
        })
    }

    /// A word; 0 when the node is gone.
    pub fn get(&self, offset: u64) -> u64 {
        read(&self.file, self.base + offset).unwrap_or(0)
    }

    /// Writes a word.
    pub fn set(&self, offset: u64, value: u64) {
        // A node that is gone has nothing to be written to.
        let _ = self
            .file
            .write_all_at(&value.to_le_bytes(), self.base + offset);
    }

    /// Ranks of the node.
    pub fn ranks(&self) -> usize {
        self.config.ranks
    }

    /// RAM, but for the node pool. There is less than would lie above 4 GiB: offsets are physical addresses.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether a rank's program runs.
    pub fn runs(&self, rank: usize) -> bool {
        let state = offset_of!(RankArea, node) + offset_of!(FromNode, state);
        self.get((self.layout.rank(rank) + state) as u64) == state::RUNNING
    }

    /// A copy of a record; `None`: the node is gone.
    fn record<T: FromBytes>(&self, offset: usize) -> Option<T> {
        let mut bytes = vec![0; size_of::<T>()];
        let at = self.base + offset as u64;
        self.file.read_exact_at(&mut bytes, at).ok()?;
        T::read_from_bytes(&bytes).ok()
    }

    /// All that host processes map, as base and length.
    pub fn shown(&self) -> Vec<(u64, u64)> {
        let mut shown = Vec::new();
        for rank in 0..self.config.ranks {
            let node = self.layout.rank(rank) + offset_of!(RankArea, node);
            if let Some(node) = self.record(node) {
                let mappable = Mappable::of(self.base, &self.layout, &node);
                shown.extend(mappable.ranges());
            }
        }
        shown
    }

    /// Where the words lie that say whether the proxy of rank 0 rings for an answer.
    pub fn bells(&self) -> Vec<u64> {
        (0..THREADS)
            .map(|index| self.thread(0, index) + BELL)
            .collect()
    }

    /// Where the word lies that says how far the proxy of rank 0 follows its mappings.
    pub fn followed(&self) -> Vec<u64> {
        vec![self.layout.region_log(0) as u64 + LINE]
    }

    /// Where the word lies that says how far the trace of rank 0 was read.
    pub fn traced(&self) -> Vec<u64> {
        let trace = self.layout.trace(0);
        trace.map(|trace| trace as u64 + LINE).into_iter().collect()
    }

    /// The area of a thread.
    pub fn thread(&self, rank: usize, index: usize) -> u64 {
        (self.layout.threads(rank) + index * size_of::<ThreadArea>()) as u64
    }

    /// Threads whose areas are of interest.
    pub const fn threads() -> usize {
        THREADS
    }

    /// Everything.
    pub fn parts(&self) -> Vec<Part> {
        let layout = &self.layout;
        let mut parts = Vec::new();
        let mut add = |rank, start: usize, len_bytes: u64, is_hosts| {
            parts.push(Part {
                start: start as u64,
                len_bytes,
                is_hosts,
                rank,
            });
        };
        add(None, 0, offset_of!(Header, node_state) as u64, true);
        let states = size_of::<Header>() - offset_of!(Header, node_state);
        add(None, offset_of!(Header, node_state), states as u64, false);
        add(None, offset_of!(Header, pong), 8, true);
        add(None, layout.clock, bytes::<ClockPage>(), true);
        for cpu in 0..self.config.cpus {
            add(None, layout.cpu_stats(cpu), bytes::<CpuStats>(), false);
        }
        for rank in 0..self.config.ranks {
            let (all, of) = (layout.rank(rank), Some(rank));
            add(of, layout.info(rank), bytes::<InfoPage>(), false);
            add(
                of,
                all + offset_of!(RankArea, host),
                bytes::<FromHost>(),
                true,
            );
            add(
                of,
                all + offset_of!(RankArea, node),
                bytes::<FromNode>(),
                false,
            );
            add(
                of,
                all + offset_of!(RankArea, mailbox),
                bytes::<Mailbox>(),
                true,
            );
            add(
                of,
                all + offset_of!(RankArea, child),
                bytes::<Child>(),
                false,
            );
            add(
                of,
                all + offset_of!(RankArea, children),
                bytes::<Children>(),
                true,
            );
            let log = layout.region_log(rank);
            add(of, log, bytes::<RegionLog>(), false);
            add(of, log + LINE as usize, LINE, true);
            if let Some(trace) = layout.trace(rank) {
                add(of, trace, bytes::<TraceRing>(), false);
                add(of, trace + LINE as usize, LINE, true);
            }
            for index in 0..THREADS {
                let thread = self.thread(rank, index) as usize;
                add(of, thread, ANSWER, false);
                add(of, thread + ANSWER as usize, LINE, true);
                let host = thread + offset_of!(ThreadArea, host);
                add(of, host, LINE, true);
                add(of, host + LINE as usize, LINE, false);
            }
        }
        parts
    }
}

fn bytes<T>() -> u64 {
    size_of::<T>() as u64
}

fn read(file: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_le_bytes(bytes))
}
