//! What the kernel counts, read from a running node's memory as yod reads it in the end.

use std::fs::{self, File};
use std::mem::size_of;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use abi::map::COMM_BASE;
use abi::syscall::{ALL, Call};
use anyhow::{Result, bail};
use margay_tests::process;
use wire::boot::{Config, Header};
use wire::layout::Layout;
use wire::rank::RankArea;
use wire::stats::CpuStats;
use zerocopy::FromBytes;

use crate::{LIMIT, MOMENT};

/// A running node's memory, as Linux shows it: that of the keeper and of QEMU.
pub struct Node {
    ram: File,
    layout: Layout,
}

impl Node {
    /// Waits for the node of a job.
    pub fn of(mark: &str, yod: u32) -> Result<Node> {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let family = process::of_job(mark, yod);
            let found = family.iter().find_map(|process| ram_of(process.pid));
            if let Some(node) = found.and_then(|ram| Node::read(ram).ok()) {
                return Ok(node);
            }
            std::thread::sleep(MOMENT);
        }
        bail!("no process of the job has the node's memory")
    }

    fn read(ram: File) -> Result<Node> {
        let header: Header = record(&ram, 0)?;
        let config = Config::read(&header).map_err(|bad| anyhow::anyhow!("{bad:?}"))?;
        Ok(Node {
            ram,
            layout: Layout::new(&config),
        })
    }

    /// What is known of a rank.
    pub fn rank(&self, rank: usize) -> Result<RankArea> {
        record(&self.ram, self.layout.rank(rank))
    }

    /// The number of its core.
    pub fn core_of(&self, rank: usize) -> Result<usize> {
        Ok(self.rank(rank)?.node.cpus[0].load().try_into()?)
    }

    /// A core's counters.
    pub fn counters(&self, core: usize) -> Result<CpuStats> {
        record(&self.ram, self.layout.cpu_stats(core))
    }
}

/// Entries into the kernel from ring 3, and interrupts, of a core between two readings of its counters.
pub fn disturbances(before: &CpuStats, after: &CpuStats) -> [u64; 2] {
    let interrupts = |core: &CpuStats| {
        core.interrupts()
            .map(|kind| kind.load())
            .iter()
            .sum::<u64>()
    };
    [
        after.entries.load() - before.entries.load(),
        interrupts(after) - interrupts(before),
    ]
}

/// Calls of a name, of those that are counted.
pub fn calls(core: &CpuStats, name: &str) -> u64 {
    let row: Option<&Call> = ALL.iter().find(|row| row.name == name);
    row.map_or(0, |row| core.by_call[row.nr as usize].load())
}

/// A record of the communication area.
fn record<T: FromBytes>(ram: &File, offset: usize) -> Result<T> {
    let mut bytes = vec![0; size_of::<T>()];
    ram.read_exact_at(&mut bytes, COMM_BASE + offset as u64)?;
    T::read_from_bytes(&bytes).map_err(|_| anyhow::anyhow!("a record of another size"))
}

/// The descriptor by which a process has the node's memory.
fn ram_of(process: u32) -> Option<File> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let is_ram = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:margay-ram"))
    };
    let mut paths = descriptors.flatten().map(|entry| entry.path());
    paths.find(is_ram).and_then(|path| File::open(path).ok())
}
