//! What every loader passes: command line, modules, memory map, the place of the ACPI root pointer.
//!
//! It lies in RAM that is about to be reused, so everything needed is copied out before the first page of RAM is taken.
//!
//! BOUND: at boot only.

use super::memory::{Memory, le, number};
use super::modules::Modules;
use super::ram::Entry;
use crate::addr::{Phys, PhysRange};
use arrayvec::ArrayString;

/// Longest command line kept, in bytes.
pub const MAX_CMDLINE: usize = 2048;
/// Entries of a memory map that are read; UEFI's have some hundreds.
pub const MAX_MAP_ENTRIES: u64 = 2048;

/// The loader's facts.
pub(super) struct Loader {
    pub cmdline: ArrayString<MAX_CMDLINE>,
    pub modules: Modules,
    pub rsdp: Phys,
    pub map: Map,
}

/// A memory map: both loaders' entries begin with start and length (64 bits each) and the type (32 bits; 1 is RAM).
#[derive(Clone, Copy)]
pub(super) struct Map {
    pub at: Phys,
    /// Entries that there are said to be.
    pub entries: u64,
    /// From one entry to the next, in bytes.
    pub stride: u64,
}

impl Map {
    /// Its entries. They end where they cannot be read, at the latest after [`MAX_MAP_ENTRIES`].
    pub(super) fn read(self, memory: &impl Memory) -> impl Iterator<Item = Entry> {
        const TYPE_RAM: u64 = 1;
        (0..self.entries.min(MAX_MAP_ENTRIES)).map_while(move |index| {
            let mut entry = [0u8; 20];
            let at = Phys(self.at.0.checked_add(index * self.stride)?);
            memory.read(at, &mut entry).then(|| Entry {
                start: le(&entry[..8]),
                len_bytes: le(&entry[8..16]),
                is_ram: le(&entry[16..]) == TYPE_RAM,
            })
        })
    }
}

/// The zero-terminated command line at `at`, cut where it stops being text.
pub(super) fn read_cmdline(memory: &impl Memory, at: Phys) -> ArrayString<MAX_CMDLINE> {
    let mut bytes = [0u8; MAX_CMDLINE];
    let mut len = 0;
    while at.0 != 0 && len < MAX_CMDLINE {
        match number::<1>(memory, at, len as u64) {
            Some(byte) if byte != 0 => bytes[len] = byte as u8,
            _ => break,
        }
        len += 1;
    }
    let text = bytes[..len]
        .utf8_chunks()
        .next()
        .map_or("", |chunk| chunk.valid());
    ArrayString::from(text).unwrap_or_default()
}

/// The module from `start` to `end`.
pub(super) fn module(start: u64, end: Option<u64>) -> Result<PhysRange, &'static str> {
    let end = end.filter(|&end| end >= start).ok_or("module wraps")?;
    Ok(PhysRange {
        start: Phys(start),
        end: Phys(end),
    })
}
