//! The PVH start information (Xen public/arch-x86/hvm/start_info.h).
//!
//! BOUND: at boot only.

use super::loader::{Loader, Map, module, read_cmdline};
use super::memory::{Memory, number};
use super::modules::{MAX_MODULES, Modules};
use crate::addr::{Phys, PhysRange};

/// `XEN_HVM_START_MAGIC_VALUE`, the first word.
pub(super) const MAGIC: u64 = 0x336e_c578;
/// `struct hvm_memmap_table_entry`, in bytes.
const MAP_ENTRY_BYTES: u64 = 24;

/// Offsets in `struct hvm_start_info`, version 1: 32-bit words, then 64-bit ones from `modlist` to `memmap`.
mod start_info {
    pub const VERSION: u64 = 4;
    pub const MODULES: u64 = 12;
    pub const MODLIST: u64 = 16;
    pub const CMDLINE: u64 = 24;
    pub const RSDP: u64 = 32;
    pub const MEMMAP: u64 = 40;
    pub const MEMMAP_ENTRIES: u64 = 48;
}

/// Reads the start information at `at`.
pub(super) fn read(memory: &impl Memory, at: Phys) -> Result<Loader, &'static str> {
    const UNREADABLE: &str = "PVH start information: not readable";
    let half = |offset| number::<4>(memory, at, offset).ok_or(UNREADABLE);
    let word = |offset| number::<8>(memory, at, offset).ok_or(UNREADABLE);
    let entries = if half(start_info::VERSION)? < 1 {
        0
    } else {
        half(start_info::MEMMAP_ENTRIES)?
    };
    if entries == 0 {
        return Err("PVH start information: no memory map (version 0)");
    }
    let list = Phys(word(start_info::MODLIST)?);
    let count = half(start_info::MODULES)?.min(MAX_MODULES as u64);
    let modules = (0..count).map(|index| listed(memory, list, index));
    Ok(Loader {
        cmdline: read_cmdline(memory, Phys(word(start_info::CMDLINE)?)),
        modules: modules.collect::<Result<Modules, _>>()?,
        rsdp: Phys(word(start_info::RSDP)?),
        map: Map {
            at: Phys(word(start_info::MEMMAP)?),
            entries,
            stride: MAP_ENTRY_BYTES,
        },
    })
}

/// Entry `index` of the list of `struct hvm_modlist_entry` at `list`: start, length.
fn listed(memory: &impl Memory, list: Phys, index: u64) -> Result<PhysRange, &'static str> {
    const ENTRY_BYTES: u64 = 32;
    let word = |field| {
        let word = number::<8>(memory, list, index * ENTRY_BYTES + field);
        word.ok_or("PVH start information: module list not readable")
    };
    let (start, len_bytes) = (word(0)?, word(8)?);
    module(start, start.checked_add(len_bytes))
}
