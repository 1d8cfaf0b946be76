//! The header of a node's communication area, as a running node has it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use abi::map::COMM_BASE;

/// The word of [`wire::boot::Header`] at this offset, read through a process that has the node's memory, as QEMU has; `None`: this
/// one has not.
pub fn word(process: i32, offset: usize) -> Option<u64> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let mut paths = descriptors.flatten().map(|entry| entry.path());
    let ram = paths.find(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:margay-ram"))
    })?;
    let mut bytes = [0; size_of::<u64>()];
    let at = COMM_BASE + offset as u64;
    File::open(ram).ok()?.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_le_bytes(bytes))
}
