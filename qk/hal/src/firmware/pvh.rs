//! The PVH start information (Xen public/arch-x86/hvm/start_info.h), copied and checked.
//!
//! It lies in RAM that is about to be reused, so everything needed is copied out before the first page of RAM is taken.
//!
//! BOUND: at boot only.

use super::modules::{self, MAX_MODULES, Modules};
use super::ram::Entry;
use super::{Memory, le, number};
use crate::addr::{Phys, PhysRange};
use arrayvec::ArrayString;

/// Longest command line kept, in bytes.
pub const MAX_CMDLINE: usize = 2048;
/// Entries of a memory map that are read; UEFI's have some hundreds.
pub const MAX_MAP_ENTRIES: u64 = 2048;

/// `XEN_HVM_START_MAGIC_VALUE`.
const MAGIC: u64 = 0x336e_c578;
/// `XEN_HVM_MEMMAP_TYPE_RAM`.
const TYPE_RAM: u64 = 1;

/// Offsets in `struct hvm_start_info`, version 1: 32-bit words, then 64-bit ones from `modlist` to `memmap`.
mod start_info {
    pub const MAGIC: u64 = 0;
    pub const VERSION: u64 = 4;
    pub const MODULES: u64 = 12;
    pub const MODLIST: u64 = 16;
    pub const CMDLINE: u64 = 24;
    pub const RSDP: u64 = 32;
    pub const MEMMAP: u64 = 40;
    pub const MEMMAP_ENTRIES: u64 = 48;
}

/// The loader's facts.
pub(super) struct Loader {
    pub cmdline: ArrayString<MAX_CMDLINE>,
    pub modules: Modules,
    pub rsdp: Phys,
    map: Phys,
    /// Entries that the map is said to have.
    pub map_entries: u64,
}

/// Reads the start information at `at`.
pub(super) fn read(memory: &impl Memory, at: Phys) -> Result<Loader, &'static str> {
    let half = |offset| number::<4>(memory, at, offset).ok_or("not readable");
    let word = |offset| number::<8>(memory, at, offset).ok_or("not readable");
    if half(start_info::MAGIC)? != MAGIC {
        return Err("wrong magic number");
    }
    let entries = if half(start_info::VERSION)? < 1 {
        0
    } else {
        half(start_info::MEMMAP_ENTRIES)?
    };
    if entries == 0 {
        return Err("no memory map (version 0)");
    }
    let cmdline = read_cmdline(memory, Phys(word(start_info::CMDLINE)?));
    let list = Phys(word(start_info::MODLIST)?);
    let count = half(start_info::MODULES)?.min(MAX_MODULES as u64);
    let modules = (0..count).map(|index| module(memory, list, index));
    let mut modules: Modules = modules.collect::<Result<_, _>>()?;
    if let [only] = modules[..] {
        modules = modules::of_one(only, &cmdline)?;
    }
    Ok(Loader {
        cmdline,
        modules,
        rsdp: Phys(word(start_info::RSDP)?),
        map: Phys(word(start_info::MEMMAP)?),
        map_entries: entries,
    })
}

/// Entry `index` of the list of `struct hvm_modlist_entry` at `list`: start, length.
fn module(memory: &impl Memory, list: Phys, index: u64) -> Result<PhysRange, &'static str> {
    const ENTRY_BYTES: u64 = 32;
    let word = |field| {
        let word = number::<8>(memory, list, index * ENTRY_BYTES + field);
        word.ok_or("module list not readable")
    };
    let (start, len_bytes) = (word(0)?, word(8)?);
    let end = start.checked_add(len_bytes).ok_or("module wraps")?;
    Ok(PhysRange {
        start: Phys(start),
        end: Phys(end),
    })
}

impl Loader {
    /// The memory map, `struct hvm_memmap_table_entry`: start, length, type. It ends where it cannot be
    /// read, at the latest after [`MAX_MAP_ENTRIES`].
    pub(super) fn map(&self, memory: &impl Memory) -> impl Iterator<Item = Entry> {
        const ENTRY_BYTES: u64 = 24;
        (0..self.map_entries.min(MAX_MAP_ENTRIES)).map_while(move |index| {
            let mut entry = [0u8; ENTRY_BYTES as usize];
            let at = Phys(self.map.0.checked_add(index * ENTRY_BYTES)?);
            memory.read(at, &mut entry).then(|| Entry {
                start: le(&entry[..8]),
                len_bytes: le(&entry[8..16]),
                is_ram: le(&entry[16..20]) == TYPE_RAM,
            })
        })
    }
}

/// The zero-terminated command line at `at`, cut where it stops being text.
fn read_cmdline(memory: &impl Memory, at: Phys) -> ArrayString<MAX_CMDLINE> {
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
