//! The communication area of a running node.

use std::fs::{self, File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use abi::map::COMM_BASE;
use wire::boot::{Config, Header};
use wire::layout::Layout;
use wire::rank::{FromNode, RankArea};

/// The word of [`Header`] at this offset, read through a process that has the node's memory, as QEMU has; `None`: this one has
/// not.
pub fn word(process: i32, offset: usize) -> Option<u64> {
    let mut bytes = [0; size_of::<u64>()];
    let at = COMM_BASE + offset as u64;
    ram(process)?.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Writes the state of a rank as the kernel does ([`wire::rank::state`]).
pub fn set_rank_state(process: i32, rank: usize, state: u64) -> Option<()> {
    let config = Config {
        ranks: word(process, offset_of!(Header, ranks))? as usize,
        cpus: word(process, offset_of!(Header, cpus))? as usize,
        flags: word(process, offset_of!(Header, flags))?,
        tsc_hz: 0,
        partition_bytes: 0,
        pool_bytes: 0,
    };
    let area = Layout::new(&config).rank(rank);
    let offset = area + offset_of!(RankArea, node) + offset_of!(FromNode, state);
    let at = COMM_BASE + offset as u64;
    ram(process)?.write_all_at(&state.to_le_bytes(), at).ok()
}

fn ram(process: i32) -> Option<File> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let mut paths = descriptors.flatten().map(|entry| entry.path());
    let ram = paths.find(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:margay-ram"))
    })?;
    OpenOptions::new().read(true).write(true).open(ram).ok()
}
